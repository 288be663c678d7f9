#!/usr/bin/env bash
# Tests the configuration in docs/KUBERNETES.md. The page's script makes a configuration from the
# page's template, for a voter and for an observer. holdfastd must accept both. Nothing here needs
# Kubernetes.
#
# Usage: kubernetes.sh SOURCE_DIR BIN_DIR
set -euo pipefail
page=$1/docs/KUBERNETES.md
dir=$(mktemp -d)
trap 'rm -rf -- "$dir"' EXIT
PATH=$2:$PATH
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# literal KEY: prints the text of `KEY: |` in the page's ConfigMap, with the folders of this test.
literal() {
    awk -v key="  $1: |" '$0 == key { on = 1; next } on && !/^    / && !/^$/ { exit } on' "$page" |
        sed -e 's/^    //' -e "s:/template:$dir/template:g" -e "s:/etc/holdfast:$dir/etc:g" \
            -e "s:/run/holdfast:$dir/run:g" -e "s:/tls/:$dir/tls/:g"
}
mkdir "$dir/template" "$dir/etc" "$dir/run" "$dir/tls"
literal write >"$dir/template/write"
{
    # replaces the folders of this machine's own agent by folders of this test
    literal holdfastd.ini |
        sed "s:^\[agent\]:&\nstate_dir = $dir/state\nsocket = $dir/run/agent.sock:"
} >"$dir/template/holdfastd.ini"
grep -q '@NAME@' "$dir/template/holdfastd.ini" || fail "no template in $page"
grep -q 'check-config' "$dir/template/write" || fail "no script in $page"

# The certificates, by the recipe of docs/TLS.md.
awk '/^```sh$/ { on = 1; next } /^```$/ { if (on) exit } on' "$1/docs/TLS.md" |
    sed 's/^for host in .*; do/for host in node-b worker-7; do/' >"$dir/recipe.sh"
(cd "$dir/tls" && bash -e ../recipe.sh) >"$dir/openssl.log" 2>&1 || fail "$(cat "$dir/openssl.log")"

# expect NODE NAME ROLE IP: runs the page's script on that node, and checks what it has written
expect() {
    NODE=$1 IP=$4 sh "$dir/template/write" >"$dir/said" 2>&1 ||
        fail "node $1: $(cat "$dir/said" "$dir/etc/holdfastd.ini")"
    for line in "name = $2" "role = $3" "listen = tls+tcp://$4:7411"; do
        grep -qxF "$line" "$dir/etc/holdfastd.ini" ||
            fail "node $1: expected '$line': $(cat "$dir/etc/holdfastd.ini")"
    done
    [[ $(stat -c %a "$dir/run") == 711 ]] || fail "the socket's folder can be listed"
}
expect node-b node-b voter 10.0.0.2
expect worker-7.example.org worker-7 observer 10.0.0.17
if grep -q '@' "$dir/etc/holdfastd.ini"; then fail "a value is not filled in"; fi
echo "the configuration is good"
