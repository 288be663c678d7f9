# The test scripts in this folder source this file. It sets what go builds with: the library of the
# build beside $HOLDFAST_BIN_DIR (default: build/bin of this checkout), and nothing from the network.
# Exit status 77 (a skip): there is no go.

: "${HOLDFAST_BIN_DIR:=$(cd "$(dirname "$0")/../.." && pwd)/build/bin}"
if ! command -v go >/dev/null; then
    echo "not run: there is no go (Debian: golang-go; ./dev test --go installs it)"
    exit 77
fi
build=$(cd "$HOLDFAST_BIN_DIR/.." && pwd)
export HOLDFAST_BIN_DIR GOCACHE="$build/go-cache" GOPATH="$build/go-path" GOPROXY=off GOFLAGS=-mod=mod
export PKG_CONFIG_PATH="$build/lib/pkgconfig" GOTOOLCHAIN=local GOWORK=off
