#!/usr/bin/env bash
# Runs the commands of docs/TLS.md unchanged, and checks that agents accept the files.
#
# Usage: tls.sh SOURCE_DIR BIN_DIR
set -euo pipefail
page=$1/docs/TLS.md
bin=$2
dir=$(mktemp -d)
cell=tls$$ # of its own: what its agents leave in /dev/shm bears this name
agents=()
cleanup() {
    for agent in "${agents[@]}"; do kill "$agent" 2>/dev/null || true; done
    wait
    rm -rf "$dir" /dev/shm/holdfast."$cell".*
}
trap cleanup EXIT
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Runs the first block of commands on the page.
awk '/^```sh$/ { on = 1; next } /^```$/ { if (on) exit } on' "$page" >"$dir/recipe.sh"
grep -q 'openssl x509' "$dir/recipe.sh" || fail "no recipe in $page"
(cd "$dir" && bash -e recipe.sh) >"$dir/openssl.log" 2>&1 || fail "$(cat "$dir/openssl.log")"
for key in ca host-a host-b host-c; do
    [[ $(stat -c %a "$dir/$key.key") == 600 ]] || fail "$key.key is not 0600"
done

# configure NAME KEY: writes a configuration that listens on a port of the loopback. Neither the
# kernel nor ../free_port.h gives this port to others, and another run of this test hardly uses it.
first_port=$((30000 + $$ * 4 % 2700))
configure() {
    printf '[agent]\nname = %s\ncell = %s\nstate_dir = %s/%s\nsocket = %s/%s.sock\n' \
        "$1" "$cell" "$dir" "$1" "$dir" "$1"
    printf '[voters]\n'
    for i in 0 1 2; do
        printf 'host-%s = tls+tcp://127.0.0.1:%d\n' "$(tr 012 abc <<<$i)" $((first_port + i))
    done
    printf '[tls]\nca = %s/ca.pem\ncert = %s/%s.pem\nkey = %s/%s.key\n' "$dir" "$dir" "$2" "$dir" "$2"
}
for host in host-a host-b host-c; do
    configure $host $host >"$dir/$host.ini"
    "$bin/holdfastd" --config "$dir/$host.ini" --check-config >/dev/null
done
# The agent refuses another host's certificate, and a key that every user may read.
configure host-a host-b >"$dir/wrong.ini"
if "$bin/holdfastd" --config "$dir/wrong.ini" --check-config 2>"$dir/err"; then
    fail "host-b's certificate is good for host-a"
fi
grep -q 'expected one of CN=host-a' "$dir/err" || fail "$(cat "$dir/err")"
chmod 0644 "$dir/host-a.key"
if "$bin/holdfastd" --config "$dir/host-a.ini" --check-config 2>"$dir/err"; then
    fail "a key that everybody can read is taken"
fi
grep -q 'host-a.key: found mode 0644' "$dir/err" || fail "$(cat "$dir/err")"
chmod 0600 "$dir/host-a.key"
# --check-config refuses an expired certificate, with the words that the running agent uses.
(
    cd "$dir"
    sign=(openssl x509 -req -in host-b.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out ended.pem)
    "${sign[@]}" -days -1 || # newer releases of openssl want both times instead
        "${sign[@]}" -not_before 20200101000000Z -not_after 20200201000000Z
) 2>/dev/null
sed 's/host-b.pem/ended.pem/' "$dir/host-b.ini" >"$dir/ended.ini"
code=0
"$bin/holdfastd" --config "$dir/ended.ini" --check-config >"$dir/out" 2>"$dir/err" || code=$?
[[ $code == 69 && ! -s $dir/out ]] || fail "a certificate that has ended is good: $code"
grep -q "ended.ini: \[tls\]: this agent's certificate (\[tls\] cert) has ended" "$dir/err" ||
    fail "$(cat "$dir/err")"

await() { # FILE TEXT
    for _ in $(seq 600); do
        grep -q "$2" "$1" && return
        sleep 0.1
    done
    fail "not in $1: $2
$(cat "$1")"
}
count() { grep -c "event=$1" "$dir/host-a.log" || true; }
await_more() { # EVENT COUNT: until host-a has logged it more often
    for _ in $(seq 1800); do
        (($(count "$1") > $2)) && return
        sleep 0.1
    done
    fail "host-a has logged $1 $2 times, and no more
$(cat "$dir/host-a.log")"
}
for host in host-a host-b host-c; do
    "$bin/holdfastd" --config "$dir/$host.ini" 2>"$dir/$host.log" &
    agents+=($!)
done
await "$dir/host-a.log" 'state=safe'
[[ $("$bin/holdfast" -s "$dir/host-a.sock" lock x -- echo held) == held ]] || fail "no lock"
# The output shows no part of a key.
if grep -l 'PRIVATE KEY' "$dir"/*.log; then fail "a key is in a log"; fi

# On SIGHUP the agent uses new files if they are valid, and refuses them if not. It goes on in both
# cases.
cp "$dir/host-b.pem" "$dir/host-a.pem"
kill -HUP "${agents[0]}"
await "$dir/host-a.log" 'event=tls_kept'
(
    cd "$dir"
    umask 077
    openssl x509 -req -in host-a.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 5 -out host-a.pem
) 2>/dev/null
renewed=$(count tls_renewed) # it may have looked by itself just now
kill -HUP "${agents[0]}"
await_more tls_renewed "$renewed"
# The agent judges the certificate, and doctor follows it. Five of five days are left, so no warning
# comes.
"$bin/holdfast" -s "$dir/host-a.sock" doctor >"$dir/doctor" || true
grep -q 'ok     tls .* valid for [45] d' "$dir/doctor" || fail "$(cat "$dir/doctor")"
if grep -q 'judgement .*certificate' "$dir/doctor"; then fail "$(cat "$dir/doctor")"; fi
[[ $("$bin/holdfast" -s "$dir/host-b.sock" lock x -- echo held) == held ]] || fail "no lock"

# The agent later uses files that it refused, once they are valid, even if no file changes.
kept=$(count tls_kept)
renewed=$(count tls_renewed)
chmod 0644 "$dir/host-a.key"
kill -HUP "${agents[0]}"
await "$dir/host-a.log" 'host-a.key: found mode 0644'
sleep 6 # it has tried them once more, after 5 s, and refused them again, without another word
(($(count tls_kept) == kept + 1)) || fail "told twice"
chmod 0600 "$dir/host-a.key"
await_more tls_renewed "$renewed"
(($(count tls_renewed) == renewed + 1)) || fail "renewed twice"
(($(count tls_kept) == kept + 1)) || fail "told twice"
echo "the recipe works"
