#!/usr/bin/env bash
# deps.sh - what the build needs: Debian packages and the unpacked pyarrow wheel.
#
# usage: deps.sh DIR     DIR/pyarrow/pyarrow is made; PYARROW=DIR2 in the environment names a
#                        pyarrow package directory (with include/ and libparquet) to take instead.
#
# Packages are installed only as root or where sudo asks for nothing; else the line to run is
# printed. Wheels are kept in $XDG_CACHE_HOME/pcvr/wheels and checked against the pinned hash.
set -eu
out=$1
pins=$(dirname "$0")/pyarrow.txt

say() { echo "deps: $*" >&2; }

has_header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
missing=
need() { missing="$missing $1"; }
command -v gcc >/dev/null || need gcc
command -v g++ >/dev/null || need g++
command -v make >/dev/null || need make
command -v re2c >/dev/null || need re2c
command -v lemon >/dev/null || need lemon
command -v python3 >/dev/null || need python3
if ! command -v cc >/dev/null; then
    need libc6-dev
fi
has_header jansson.h || need libjansson-dev
echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' | cc -E - >/dev/null 2>&1 || need libcmocka-dev
wants_wheel=1
[ -n "${PYARROW:-}" ] && wants_wheel=
[ -z "$wants_wheel" ] || python3 -m pip --version >/dev/null 2>&1 || need python3-pip

if [ -n "$missing" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if ! command -v apt-get >/dev/null; then
        say "these Debian packages, or what your system calls them, are needed:$missing"
        exit 1
    elif [ "$(id -u)" -eq 0 ]; then
        sudo=
    elif sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        say "packages are missing; please run: sudo $install"
        exit 1
    fi
    say "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    $sudo $install >/dev/null 2>&1 || { $sudo apt-get update -q >/dev/null && $sudo $install; } || {
        say "apt-get failed; please run: $install"
        exit 1
    }
fi

mkdir -p "$out"
if [ -z "$wants_wheel" ]; then
    if [ ! -e "$PYARROW/include/arrow/api.h" ] || ! ls "$PYARROW"/libparquet.so.* >/dev/null 2>&1; then
        say "PYARROW=$PYARROW holds no include/arrow/api.h and libparquet.so.*"
        exit 1
    fi
    rm -rf "$out/pyarrow"
    mkdir -p "$out/pyarrow"
    ln -s "$(realpath "$PYARROW")" "$out/pyarrow/pyarrow"
    exit 0
fi

hash=$(sed -n 's/.*--hash=sha256:\([0-9a-f]*\).*/\1/p' "$pins")
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/pcvr/wheels
if [ "$(cat "$out/pyarrow/.hash" 2>/dev/null)" = "$hash" ]; then
    exit 0
fi
wheel=
for w in "$cache"/pyarrow-*.whl "$out"/wheels/pyarrow-*.whl; do
    [ -e "$w" ] && [ "$(sha256sum <"$w" | cut -d' ' -f1)" = "$hash" ] && wheel=$w
done
if [ -z "$wheel" ]; then
    rm -rf "$out/wheels"
    say "downloading the pinned pyarrow wheel (55 MB)"
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps \
        --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
        --require-hashes -r "$pins" -d "$out/wheels" >"$out/wheels.log" 2>&1; then
        say "cannot download pyarrow ($(tail -1 "$out/wheels.log")); be online, or put the wheel of $pins into $cache, or give PYARROW=DIR"
        exit 1
    fi
    wheel=$(ls "$out"/wheels/pyarrow-*.whl)
    # Kept for the next clean build; a cache that cannot be written is no fault.
    if mkdir -p "$cache" 2>/dev/null && cp "$wheel" "$cache/.$$.tmp" 2>/dev/null; then
        mv -f "$cache/.$$.tmp" "$cache/$(basename "$wheel")" 2>/dev/null || rm -f "$cache/.$$.tmp"
    fi
fi
rm -rf "$out/pyarrow" "$out/pyarrow.tmp"
python3 -m zipfile -e "$wheel" "$out/pyarrow.tmp"
echo "$hash" >"$out/pyarrow.tmp/.hash"
mv "$out/pyarrow.tmp" "$out/pyarrow"
rm -rf "$out/wheels" "$out/wheels.log"
