#!/bin/sh
# Builds shift.go, and runs three processes of it beside each other. The first one that works is
# killed, the hold of the second one is broken by an administrator, the third one is asked to end.
# Each time another process must work, and no line of the journal may have a lower token than the
# line before it.
set -eu
if ! command -v go >/dev/null; then
    echo "there is no go (Debian: golang-go)"
    exit 77
fi
. "$(dirname "$0")/agent.sh"
. "$(dirname "$0")/three.sh"
here=$(cd "$(dirname "$0")" && pwd)

# The package is not on the network: the program's module names the folder in which it is.
mkdir "$work/module"
cp "$here/shift.go" "$work/module/main.go"
cat >"$work/module/go.mod" <<MODULE
module example/shift

go 1.19

require holdfast v0.1.0

replace holdfast => ${HOLDFAST_GO_DIR:-$here/../go/holdfast}
MODULE
export PKG_CONFIG_PATH="${PKG_CONFIG_PATH:-$HOLDFAST_BIN_DIR/../lib/pkgconfig}"
(cd "$work/module" && go build -o "$work/shift" .)

three_take_turns shift works "$work/shift"
echo "four times one process worked, each time with a higher token"
