#!/usr/bin/env bash
# Runs the test cluster_small on arm64, with an agent of the preset small. The test fails if the
# agent has more than 4 MiB resident (docs/LIMITS.md). Needs root, qemu-system-arm and cpio, and
# what arm64.sh needs. Takes no arguments.
#
# In qemu's user mode the emulator's own memory would count. So this script emulates a whole machine
# with Debian's kernel for arm64. That kernel, busybox and iproute2 are unpacked in
# build/arm64-small/debian, not installed. Remove that folder to get newer versions.
#
# The machine's clock counts instructions, not time (-icount). So the machine is never late, however
# busy this one is. While it idles, its clock jumps to the next timer.
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
TREE=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/arm64 # of arm64.sh
BUILD=$ROOT/build/arm64-small
DEBIAN=$BUILD/debian
GUEST=$BUILD/guest # what the machine has as its root
LIBRARIES=/usr/lib/aarch64-linux-gnu

die() { printf 'arm64_small: %s\n' "$*" >&2; exit 1; }

# apt as for an arm64 machine on which nothing is installed. Its lists are in $DEBIAN, too.
apt_arm64() {
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$1" -o Dir::State::status=/dev/null -o Dir::Cache="$1" \
        -o Dir::Cache::archives="$1/archives" -o APT::Sandbox::User=root "${@:2}"
}

# Only a complete folder gets the name $DEBIAN.
debian_make() {
    local made=$DEBIAN.new log=$BUILD/debian.log
    [[ ! -d $DEBIAN ]] || return 0
    rm -rf -- "$made"
    mkdir -p "$made/apt/lists/partial" "$made/apt/archives/partial"
    printf 'unpacking a kernel for arm64 in %s ... ' "$DEBIAN"
    if ! { apt_arm64 "$made/apt" update &&
        apt_arm64 "$made/apt" install --download-only --no-install-recommends \
            linux-image-cloud-arm64 busybox-static iproute2 &&
        find "$made/apt/archives" -name '*.deb' -print0 |
        xargs -0 -n 1 sh -c 'dpkg-deb -x "$2" "$1"' sh "$made"; } >"$log" 2>&1; then
        die "it failed; the log: $log"$'\n'"$(tail -n 5 "$log")"
    fi
    rm -rf -- "$made/apt"
    mv -T -- "$made" "$DEBIAN"
    echo "done"
}

build() {
    local log=$BUILD/dev-build.log
    printf 'building build/arm64-small ... '
    # The options of the preset small (CMakePresets.json).
    if ! { cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=MinSizeRel -DHF_TESTS=OFF \
        -DHOLDFAST_TLS=OFF -DHOLDFAST_HTTP=OFF -DHF_ARM64_TREE="$TREE" \
        -DCMAKE_TOOLCHAIN_FILE="$ROOT/tests/platform/arm64.cmake" &&
        cmake --build "$BUILD" --parallel "${HOLDFAST_JOBS:-$(nproc)}" --target holdfastd; } \
        >"$log" 2>&1; then
        die "it failed; the log: $log"$'\n'"$(tail -n 30 "$log")"
    fi
    echo "done"
}

# guest_add FILE FOLDER: copies the file into this folder of the guest, and libraries that it needs.
guest_add() {
    local name
    cp -L -- "$1" "$GUEST$2/"
    for name in $(aarch64-linux-gnu-readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [[ -e $GUEST$LIBRARIES/$name ]] ||
            guest_add "$(find -L "$TREE"/{lib,usr/lib}/aarch64-linux-gnu \
                "$DEBIAN"/{lib,usr/lib}/aarch64-linux-gnu -maxdepth 1 -name "$name" -print -quit \
                2>/dev/null)" "$LIBRARIES"
    done
}

guest_make() {
    rm -rf -- "$GUEST"
    mkdir -p "$GUEST"/{bin,dev,proc,sys,tmp,usr/sbin,modules} "$GUEST$LIBRARIES"
    ln -s usr/lib "$GUEST/lib"
    ln -s "aarch64-linux-gnu/ld-linux-aarch64.so.1" "$GUEST/usr/lib/"
    cp -L -- "$(find "$DEBIAN" -name busybox -path '*/bin/*' -type f -print -quit)" "$GUEST/bin/"
    guest_add "$BUILD/bin/holdfastd" /bin
    guest_add "$ROOT/build/arm64/tests/test_cluster_small" /bin
    guest_add "$(find -L "$DEBIAN" -name ip -path '*/bin/*' -type f -print -quit)" /usr/sbin
    find "$DEBIAN" \( -name llc.ko -o -name stp.ko -o -name bridge.ko -o -name veth.ko \) \
        -exec cp -t "$GUEST/modules" {} +
    cat >"$GUEST/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
for name in llc stp bridge veth; do insmod /modules/$name.ko; done
export PATH=/usr/sbin:/bin HOLDFAST_BIN_DIR=/bin CK_VERBOSITY=verbose
ip link set lo up
uname -srm
test_cluster_small
echo "exit status $?"
poweroff -f
END
    chmod 755 "$GUEST/init"
    (cd "$GUEST" && find . | cpio -o -H newc --quiet | gzip -1) >"$BUILD/guest.gz"
}

[[ $# == 0 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
type -P qemu-system-aarch64 cpio >/dev/null || die "needs the packages qemu-system-arm and cpio"
"$ROOT/tests/platform/arm64.sh" --build test_cluster_small
debian_make
build
"$ROOT/tests/packaging/size.sh" "$BUILD/bin/holdfastd" aarch64-linux-gnu-strip
guest_make
timeout 3600 qemu-system-aarch64 -machine virt -cpu cortex-a72 -accel tcg,thread=single \
    -icount shift=2,sleep=off -m 512 -nodefaults -no-user-config -no-reboot -display none \
    -serial stdio -kernel "$(find "$DEBIAN/boot" -name 'vmlinuz-*' -print -quit)" \
    -initrd "$BUILD/guest.gz" \
    -append 'console=ttyAMA0 panic=-1 quiet' </dev/null | tee "$BUILD/guest.log"
tr -d '\r' <"$BUILD/guest.log" | grep -qx 'exit status 0'
