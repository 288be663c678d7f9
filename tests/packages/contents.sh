#!/usr/bin/env bash
# The Debian packages have the files that they should have. Each file is in one package only, is
# stripped, is for the packages' architecture, and has its debug package. The packages depend on the
# packages of the libraries that they need. A program builds against libholdfast-dev, with
# pkg-config and with CMake.
#
#   contents.sh FOLDER SOURCE [arm64]
#
# FOLDER has the packages. With arm64 they are cross-built, and FOLDER has no package with the
# architecture `all`. Then this script needs the compiler and the libraries for arm64, as cross.sh
# installs them, and programs run under qemu.
set -euo pipefail
packages=$(cd -- "$1" && pwd) source=$(cd -- "$2" && pwd)
here=$source/tests/packages
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
failed=0
arch=${3:-$(dpkg --print-architecture)}
multiarch=$(dpkg-architecture -a "$arch" -qDEB_HOST_MULTIARCH 2>/dev/null)
compiler=gcc run=() cmake_options=() common=(python3-holdfast golang-holdfast-dev holdfast-doc)
if [[ -n ${3:-} ]]; then
    compiler=$multiarch-gcc run=(qemu-aarch64-static) common=()
    cmake_options=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64)
fi
cmake_options+=(-DCMAKE_C_COMPILER="$compiler")
root=$work/root
[[ -d $packages ]] || { echo "no folder $packages"; exit 1; }

complain() { echo "$*"; failed=1; }

# unpack PACKAGE: unpacks it into the common root. No file may be in two packages.
unpack() {
    local found=("$packages/$1"_*.deb)
    [[ -e ${found[0]} && ${#found[@]} == 1 ]] || { complain "no package, or several: $1"; return; }
    dpkg-deb -c "${found[0]}" | awk '$1 !~ /^d/ { print $6 }' >>"$work/files"
    dpkg-deb -x "${found[0]}" "$root"
}

for package in holdfast libholdfast0 libholdfast-dev holdfast-dbgsym libholdfast0-dbgsym \
    "${common[@]}"; do
    unpack "$package"
done
sort "$work/files" | uniq -d | grep -v '/$' >"$work/twice" || true
[[ ! -s $work/twice ]] || complain "in two packages: $(paste -sd' ' "$work/twice")"

units=$root/lib/systemd/system
[[ -d $units ]] || units=$root/usr/lib/systemd/system
for file in "$root"/usr/bin/{holdfast,holdfastd} "$units/holdfastd.service" \
    "$root"/usr/lib/{sysusers,tmpfiles}.d/holdfast.conf "$root/etc/apparmor.d/usr.bin.holdfastd" \
    "$root/usr/share/doc/holdfast/examples/holdfastd.ini" \
    "$root/usr/share/bash-completion/completions/holdfast" \
    "$root/usr/share/zsh/vendor-completions/_holdfast" \
    "$root/usr/share/fish/vendor_completions.d/holdfast.fish" \
    "$root"/usr/share/man/man{1/holdfast.1,1/holdfast-lock.1,3/hf_connect.3,3/libholdfast.3}.gz \
    "$root"/usr/share/man/man{5/holdfastd.ini.5,7/holdfast.7,8/holdfastd.8}.gz \
    "$root"/usr/lib/"$multiarch"/{libholdfast.so.0,libholdfast.so,libholdfast.a}; do
    [[ -s $file ]] || complain "no ${file#"$root"}"
done
[[ -n ${3:-} || -s $root/usr/share/doc/holdfast/docs/OPERATIONS.md ]] ||
    complain "no /usr/share/doc/holdfast/docs/OPERATIONS.md"
grep -q '^ExecStart=/usr/bin/holdfastd ' "$units/holdfastd.service" ||
    complain "the unit does not start /usr/bin/holdfastd"
for file in "$root"/usr/bin/{holdfast,holdfastd} "$root/usr/lib/$multiarch/libholdfast.so.0"; do
    if readelf -SW "$file" | grep -q ' \.debug_info '; then complain "not stripped: $file"; fi
    id=$(readelf -nW "$file" | sed -n 's/.*Build ID: //p')
    [[ -s $root/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug ]] ||
        complain "no debug information of ${file#"$root"}"
done
if grep -raqF -e "$source" -e "$packages" "$root/usr/bin" "$root/usr/lib"; then
    complain "a file has the path of the folder in which it was built"
fi

# The packages and their programs are for the right architecture. An empty program from the compiler
# serves for comparison.
machine_of() { readelf -h "$1" | sed -n 's/ *Machine: *//p'; }
echo 'int main(void) { return 0; }' >"$work/empty.c"
"$compiler" "$work/empty.c" -o "$work/empty"
machine=$(machine_of "$work/empty")
for package in holdfast libholdfast0 libholdfast-dev holdfast-dbgsym libholdfast0-dbgsym; do
    named=$(dpkg-deb -f "$packages/$package"_*.deb Architecture)
    [[ $named == "$arch" ]] || complain "$package is for $named, not for $arch"
done
for file in "$root"/usr/bin/{holdfast,holdfastd} "$root/usr/lib/$multiarch/libholdfast.so.0"; do
    named=$(machine_of "$file")
    [[ $named == "$machine" ]] || complain "${file#"$root"} is for $named, not for $machine"
done

# depends_on PACKAGE FILE...: the files need libraries, and the package depends on each package that
# has one of them. The C library's package has the program loader, too.
depends_on() {
    local package=$1 library owner
    shift
    dpkg-deb -f "$packages/$package"_*.deb Depends Pre-Depends | sed 's/^[A-Za-z-]*: //' |
        tr -s '|,' '\n' | awk '{ print $1 }' >"$work/depends"
    while read -r library; do
        owner=$(dpkg-query -S "*/$multiarch/$library" 2>/dev/null | sed 's/:.*//' | sort -u)
        if [[ $library == libholdfast.so.0 ]]; then owner=libholdfast0; fi
        if [[ -z $owner ]]; then
            complain "$package needs $library: no installed package has it"
        elif ! grep -qxF "$owner" "$work/depends"; then
            complain "$package needs $library, and does not depend on $owner"
        fi
    done < <(readelf -dW "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | grep -v '^ld-' | sort -u)
}
depends_on holdfast "$root"/usr/bin/{holdfast,holdfastd}
depends_on libholdfast0 "$root/usr/lib/$multiarch/libholdfast.so.0"

# The pages to which the sources link are in the packages.
while IFS= read -r -d '' page; do
    while read -r target; do
        linked=$(dirname -- "$page")/${target%%#*} # the licence is a link to another package's file
        [[ -e $linked || -L $linked ]] || complain "${page#"$root"}: no $target"
    done < <(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '^[a-z]*:' || true)
done < <(find "$root/usr/share/doc/holdfast" -name README.md -print0)

# A program builds with the packages' files, without any file of the source.
printf '#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void)\n{\n    puts(%s);\n}\n' \
    'hf_version()' >"$work/program.c"
version=$(dpkg-deb -f "$packages"/libholdfast0_*.deb Version)
pkgconfig=$root/usr/lib/$multiarch/pkgconfig
export PKG_CONFIG_LIBDIR=/usr/lib/$multiarch/pkgconfig:/usr/share/pkgconfig
read -ra flags < <(PKG_CONFIG_PATH=$pkgconfig pkg-config --cflags --libs holdfast)
"$compiler" -Wall -Werror "$work/program.c" "${flags[@]}" -o "$work/shared"
readelf -dW "$work/shared" | grep -q '(NEEDED).*\[libholdfast.so.0\]$' ||
    complain "a program does not need libholdfast.so.0"
cmake -S "$here/program" -B "$work/cmake" -DPROGRAM="$work/program.c" \
    "${cmake_options[@]}" -DCMAKE_PREFIX_PATH="$root/usr" >"$work/log" 2>&1 &&
    cmake --build "$work/cmake" >>"$work/log" 2>&1 ||
    { cat "$work/log"; complain "find_package(holdfast) fails"; }
for program in shared cmake/program cmake/program_static; do
    printed=$(LD_LIBRARY_PATH=$root/usr/lib/$multiarch "${run[@]}" "$work/$program" || true)
    [[ $printed == "$version" ]] ||
        complain "the program $program prints '$printed', not '$version'"
done

for program in holdfast holdfastd; do
    printed=$(LD_LIBRARY_PATH=$root/usr/lib/$multiarch "${run[@]}" "$root/usr/bin/$program" \
        --version || true)
    [[ $printed == "$program $version"* ]] ||
        complain "$program --version prints '$printed', not '$program $version'"
done
finish() {
    ((failed)) || echo "the packages have what they should have"
    exit "$failed"
}
[[ -z ${3:-} ]] || finish

# A Python program finds the package and the library. What is in the package is what the source has.
python=$root/usr/lib/python3/dist-packages
printed=$(LD_LIBRARY_PATH=$root/usr/lib/$multiarch PYTHONPATH=$python python3 -B -c '
import holdfast; print(holdfast.version())' || true)
[[ $printed == "$version" ]] || complain "python3 prints '$printed', not '$version'"
diff -r -x __pycache__ "$source/python/holdfast" "$python/holdfast" ||
    complain "python3-holdfast is not what python/holdfast is"
for package in libholdfast0 python3-holdfast; do
    grep -q "^sudo apt install .*\./build/package/${package}_\*\.deb" "$source/docs/PYTHON.md" ||
        complain "docs/PYTHON.md: its apt install lacks $package"
done
dpkg-deb -f "$packages"/python3-holdfast_*.deb Depends | grep -q 'libholdfast0.*python3:any' ||
    complain "python3-holdfast depends on: $(dpkg-deb -f "$packages"/python3-holdfast_*.deb Depends)"

# A Go program builds with the package, by a module and without one.
gocode=$root/usr/share/gocode
diff -r "$source/go/holdfast" "$gocode/src/holdfast" ||
    complain "golang-holdfast-dev is not what go/holdfast is"
dpkg-deb -f "$packages"/golang-holdfast-dev_*.deb Depends | grep -q 'libholdfast-dev' ||
    complain "golang-holdfast-dev does not depend on libholdfast-dev"
mkdir "$work/module"
printf 'package main\n\nimport "holdfast"\n\nfunc main() { println(holdfast.Version()) }\n' \
    >"$work/module/main.go"
printf 'module example/program\n\ngo 1.19\n\n%s\n\n%s\n' 'require holdfast v0.1.0' \
    "replace holdfast => $gocode/src/holdfast" >"$work/module/go.mod"
# go_builds WORD...: builds and runs the program with these words in go's environment
go_builds() {
    local printed
    printed=$(cd "$work/module" && export PKG_CONFIG_PATH=$pkgconfig GOPROXY=off GOTOOLCHAIN=local &&
        env GOCACHE="$work/go-cache" "$@" go build -o "$work/go-program" main.go &&
        LD_LIBRARY_PATH=$root/usr/lib/$multiarch "$work/go-program" 2>&1 || true)
    [[ $printed == "$version" ]] || complain "a Go program ($*) prints '$printed', not '$version'"
}
if command -v go >/dev/null; then
    go_builds GO111MODULE=on GOPATH="$work/go-path"
    go_builds GO111MODULE=off GOPATH="$gocode"
else
    echo "not run: whether a Go program builds (there is no go)"
fi
finish
