#!/usr/bin/env bash
# Tests the one question of the installation: when it comes, its default, and the effect of each
# answer. Runs the package's own debian/holdfast.config, .templates and .postinst under debconf,
# with a database of its own and stubs of the programs that change the system. Exit status 77 (a
# skip): there is no debconf. tests/packages/inside.sh does the same with the built package in a
# container.
#
# Usage: debconf.sh SOURCE_DIR
set -euo pipefail
source=$1
[[ -x /usr/share/debconf/frontend && -f /usr/share/debconf/confmodule ]] || exit 77

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
root=$work/root package=$work/package
config=$root/etc/holdfast/holdfastd.ini store=$root/var/lib/holdfast/holdfast.db
question='Begin with a cell of this one host?'
hint="holdfast: to write $config: holdfast setup; then: systemctl start holdfastd"

fail() {
    printf '%s: %s\n' "$name" "$*" >&2
    tail -n 20 "$work/said" >&2
    exit 1
}

# The scripts look at files below $root. Debian's tools remove the underscore of translatable fields
# when they build the package, so this test removes it, too.
mkdir -p "$package" "$work/bin"
sed 's/^_//' "$source/debian/holdfast.templates" >"$package/holdfast.templates"
for part in config postinst; do
    sed -E -e '/^#DEBHELPER#$/d' -e "s#(^|[ =])/(etc|run|var/lib)/#\1$root/\2/#g" \
        "$source/debian/holdfast.$part" >"$package/holdfast.$part"
done
chmod +x "$package"/holdfast.{config,postinst}
for path in etc/holdfast/holdfastd.ini var/lib/holdfast/holdfast.db run/systemd/system; do
    for part in config postinst; do
        grep -qF "$root/$path" "$package/holdfast.$part" ||
            { echo "debian/holdfast.$part does not look at /$path" >&2; exit 1; }
    done
done

# stub PROGRAM LINE...: a program that notes how it was called, and then runs the lines
stub() {
    local program=$1
    shift
    {
        printf '#!/bin/sh\necho "%s $*" >>"%s"\n' "$program" "$work/calls"
        printf '%s\n' "$@"
    } >"$work/bin/$program"
    chmod +x "$work/bin/$program"
}
stub holdfast "[ ! -e '$work/setup-fails' ] || exit 73" "mkdir -p '${config%/*}'" \
    "echo '; of setup' >'$config'"
stub systemctl '[ "$2" != is-active ] || exit 3'
stub deb-systemd-invoke
stub runuser
export PATH=$work/bin:$PATH LC_ALL=C

# A database of debconf with nothing in it, so a first installation.
export DEBCONF_SYSTEMRC=$work/debconf.conf
cat >"$DEBCONF_SYSTEMRC" <<END
Config: answers
Templates: templates

Name: answers
Driver: File
Filename: $work/answers

Name: templates
Driver: File
Filename: $work/templates
END

# begin NAME: the next case, on a host that has systemd and no files of Holdfast
begin() {
    name=$1
    rm -rf -- "$root" "$work"/{answers,templates}* "$work/calls" "$work/setup-fails"
    mkdir -p "$root/run/systemd/system" "$root/etc/holdfast" "$root/var/lib/holdfast"
    : >"$work/calls"
}

answer() { echo "holdfast holdfast/one-host boolean $1" | debconf-set-selections; }

# install FRONTEND TYPED [VERSION]: configures the package as dpkg does, after an earlier VERSION if
# there is one. TYPED is the input from the terminal. If TYPED is empty, the input ends at once:
# after an empty line this frontend would ask again.
install() {
    unset DEBIAN_HAS_FRONTEND DEBCONF_REDIR DEBIAN_PRIORITY
    printf '%b' "${2:+$2\n}" | DEBIAN_FRONTEND=$1 "$package/holdfast.postinst" configure "${3:-}" \
        >"$work/said" 2>&1 || fail "the installation fails"
}

asked() {
    [[ $(grep -cF "$question" "$work/said") == "$1" ]] ||
        fail "expected that the question is asked $1 times"
}
# The setup was called once, and the agent started with what it wrote.
begun() {
    [[ $(grep -c '^holdfast ' "$work/calls") == 1 ]] || fail "holdfast ran: $(<"$work/calls")"
    grep -qx 'holdfast setup --one-host' "$work/calls" || fail "it ran: $(<"$work/calls")"
    grep -qF "holdfast: wrote $config" "$work/said" || fail "it says not what it wrote"
    grep -qx 'deb-systemd-invoke restart holdfastd.service' "$work/calls" ||
        fail "the agent is not started"
}
not_begun() {
    ! grep '^holdfast ' "$work/calls" || fail "expected no call of holdfast"
    ! grep -F "holdfast: wrote" "$work/said" || fail "it says that it wrote a configuration"
}
# No configuration is there, so no agent starts, and the administrator reads what to do.
hinted() {
    [[ ! -e $config ]] || fail "there is a configuration"
    grep -qxF "$hint" "$work/said" || fail "it says not what to do"
    ! grep '^deb-systemd-invoke restart' "$work/calls" || fail "an agent without configuration"
}

begin 'no terminal: the default'
install noninteractive ''
asked 0
begun

begin 'a terminal, and no answer: the default'
install teletype ''
asked 1
begun

begin 'a terminal, and yes'
install teletype yes
asked 1
begun

begin 'a terminal, and no'
install teletype no
asked 1
not_begun
hinted

for frontend in noninteractive teletype; do
    begin "preseeded with no, $frontend"
    answer false
    install "$frontend" yes
    asked 0
    not_begun
    hinted

    begin "preseeded with yes, $frontend"
    answer true
    install "$frontend" no
    asked 0
    begun
done

begin 'asked once, not at the next installation'
install teletype no
asked 1
install teletype yes
asked 0
not_begun

begin 'an upgrade'
install teletype yes 0.0.9
asked 0
not_begun
hinted

begin 'a configuration is there'
echo '; mine' >"$config"
install teletype yes
asked 0
not_begun
[[ $(<"$config") == '; mine' ]] || fail "the configuration is another one"
grep -qx 'deb-systemd-invoke restart holdfastd.service' "$work/calls" ||
    fail "the agent is not started"

begin 'a store is there'
echo 'rows' >"$store"
install teletype yes
asked 0
not_begun
hinted

begin 'no systemd'
rmdir "$root/run/systemd/system"
install teletype yes
asked 0
not_begun
[[ ! -e $config && ! -s $work/calls ]] || fail "it ran: $(<"$work/calls")"
grep -qF "no systemd runs here, so no agent was set up. To write $config: holdfast setup" \
    "$work/said" || fail "it says not what to do"

begin 'the setup fails'
: >"$work/setup-fails"
install noninteractive ''
[[ $(grep -c '^holdfast setup --one-host$' "$work/calls") == 1 ]] || fail "$(<"$work/calls")"
! grep -F "holdfast: wrote" "$work/said" || fail "it says that it wrote a configuration"
hinted

# The template for translations contains the question's text.
name='debian/po'
: >"$work/said"
grep -qF "msgid \"$question\"" "$source/debian/po/templates.pot" ||
    fail "templates.pot lacks the question: debconf-updatepo --podir=debian/po"
