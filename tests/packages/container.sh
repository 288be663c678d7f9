#!/usr/bin/env bash
# Boots a clean Debian in a container, and runs inside.sh there as a service, which installs, uses,
# upgrades, removes and purges the packages. Needs root, systemd-nspawn, and the Debian mirror.
#
#   container.sh FOLDER [RELEASE]   the folder with the packages; bookworm or trixie (default: this
#                                   machine's release)
#
# debootstrap makes the tree once, in $XDG_CACHE_HOME/holdfast/boot-RELEASE (else ~/.cache). Remove
# the tree to have it made again. The tree stays unchanged: the container writes to a tmpfs over it,
# which ends with the container. HOLDFAST_MIRROR is the mirror.
set -euo pipefail

packages=$(cd -- "$1" && pwd)
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
release=${2:-$own}
here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
tree=$cache/boot-$release
mirror=${HOLDFAST_MIRROR:-$(
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
        awk 'found == "" && $2 !~ /-/ { found = $1 } END { print found }')}

die() { printf 'container: %s\n' "$*" >&2; exit 1; }

# Only a complete tree gets the name $tree.
tree_make() {
    local made
    [[ ! -d $tree ]] || return 0
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/boot-$release.XXXXXX")
    chmod 755 "$made"
    printf 'making a tree of Debian %s in %s ... ' "$release" "$tree"
    if ! debootstrap --variant=minbase --include=ca-certificates,systemd,systemd-sysv,dbus \
        "$release" "$made" "$mirror" >"$cache/boot-$release.log" 2>&1; then
        rm -rf --one-file-system -- "$made"
        tail -n 5 "$cache/boot-$release.log" >&2
        die "debootstrap failed; its log: $cache/boot-$release.log"
    fi
    mv -T -- "$made" "$tree"
    echo "done"
}

# Makes packages for an upgrade: the same packages with a higher version.
upgrade_make() {
    local package unpacked=$work/unpacked
    mkdir -p "$work/upgrade"
    for package in "$packages"/{holdfast,libholdfast0,libholdfast-dev}_*.deb; do
        rm -rf -- "$unpacked"
        dpkg-deb -R "$package" "$unpacked"
        sed -i -e 's/^Version: .*/&+upgrade/' \
            -e 's/(= \([^)]*\))/(= \1+upgrade)/' "$unpacked/DEBIAN/control"
        dpkg-deb --root-owner-group -b "$unpacked" "$work/upgrade" >/dev/null
    done
}

# Builds a program with the library, because the container has no compiler.
program_make() {
    local root=$work/root flags
    dpkg-deb -x "$packages"/libholdfast-dev_*.deb "$root"
    dpkg-deb -x "$packages"/libholdfast0_*.deb "$root"
    awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$here/../../README.md" \
        >"$work/program.c"
    read -ra flags < <(PKG_CONFIG_PATH=$(echo "$root"/usr/lib/*/pkgconfig) \
        pkg-config --cflags --libs holdfast)
    gcc "$work/program.c" "${flags[@]}" -o "$work/program"
}

# Installs this source's own build, as `cmake --install` puts it into /usr/local, if the build is
# for the container's Debian.
local_make() {
    local build=$here/../../build
    [[ -x $build/bin/holdfastd && $release == "$own" ]] || return 0
    DESTDIR=$work/local cmake --install "$build" --prefix /usr/local >/dev/null
}

# Writes the service that runs inside.sh. The container stops when the service ends, whatever the
# result is.
service_make() {
    mkdir -p "$work/results"
    cat >"$work/test.service" <<SERVICE
[Unit]
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=exec
Environment=HOME=/root
ExecStart=/bin/bash /packages-test/inside.sh
StandardOutput=file:/results/log
StandardError=file:/results/log
TimeoutStopSec=5
RuntimeMaxSec=${HOLDFAST_PACKAGES_SECONDS:-900}
SERVICE
    apt-config dump | grep -i '^Acquire::.*proxy' >"$work/90host" || true
    cp -L /etc/resolv.conf "$work/resolv.conf"
}

# Without systemd on this machine, nothing gives the container its own cgroups, so this function
# makes them.
cgroup_enter() {
    local hierarchy folder
    [[ ! -d /run/systemd/system ]] || return 0
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
        if [[ -w $hierarchy/cgroup.procs ]]; then
            folder=$hierarchy/holdfast-packages-$$
            mkdir "$folder"
            groups+=("$folder")
            echo "$BASHPID" >"$folder/cgroup.procs"
        fi
    done
}

cgroup_leave() {
    local folder
    for folder in "${groups[@]}"; do
        echo "$BASHPID" >"${folder%/*}/cgroup.procs"
        find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    groups=()
}

boot() {
    local options=(--register=no)
    [[ -d /run/systemd/system ]] || options+=(--keep-unit)
    cgroup_enter
    systemd-nspawn --quiet "${options[@]}" --boot --volatile=overlay --directory="$tree" \
        --console=pipe --resolv-conf=off --hostname=clean --uuid=00000000000000000000000000000001 \
        --bind="$work/results:/results" --bind-ro="$work:/packages-test/given" \
        --bind-ro="$packages:/packages-test/packages" \
        --bind-ro="$here/inside.sh:/packages-test/inside.sh" \
        --bind-ro="$work/90host:/etc/apt/apt.conf.d/90host" \
        --bind-ro="$work/resolv.conf:/etc/resolv.conf" \
        --bind-ro="$work/test.service:/etc/systemd/system/test.service" \
        -- systemd.unit=multi-user.target systemd.wants=test.service \
        </dev/null >"$work/console" 2>&1 || true
    cgroup_leave
}

groups=()
work=$(mktemp -d)
trap 'cgroup_leave; rm -rf -- "$work"' EXIT
[[ $(id -u) == 0 ]] || die "needs root"
command -v systemd-nspawn >/dev/null || die "needs systemd-nspawn (the package systemd-container)"
command -v debootstrap >/dev/null || [[ -d $tree ]] || die "needs debootstrap"
tree_make
upgrade_make
program_make
local_make
service_make
printf 'a clean Debian %s in a container:\n' "$release"
boot
cat "$work/results/log" 2>/dev/null || { tail -n 30 "$work/console" >&2; die "it did not boot"; }
[[ $(cat "$work/results/status" 2>/dev/null) == 0 ]] || die "failed"
