# lib.sh - for the scripts beside it: results, recorded cases, a cache of compiled modules.

set -u
pcvr=${BUILD:-build}/pcvr
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# Modules are kept between runs; their names depend on everything that goes into them.
cache=$PWD/${BUILD:-build}/cache
mkdir -p "$cache"
export XDG_CACHE_HOME=$cache

cases=${PCVR_FIXTURES:-../shared/fixtures}/models
if [ ! -d "$cases" ]; then
    cases=tests/golden/models
    echo "reason: no recorded cases under \$PCVR_FIXTURES or ../shared/fixtures, only small copies"
fi

# Sanitizers make everything slow: less is tried then.
[ "${BUILD:-build}" = build ] && sanitized=0 || sanitized=1

result() { # name, status of what was tried
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "FAIL $1"
        [ -e "$tmp/out" ] && cat "$tmp/out"
        [ -e "$tmp/err" ] && cat "$tmp/err"
        failed=1
    fi
}

# run ARGUMENT...: the program's output in $tmp/out and $tmp/err, its exit status
run() { "$pcvr" "$@" >"$tmp/out" 2>"$tmp/err"; }

# expect NAME STATUS TEXT ARGUMENT...: an exit status, and a text in the output
expect() {
    local name=$1 status=$2 text=$3
    shift 3
    run "$@"
    [ $? -eq "$status" ] && grep -qF -- "$text" "$tmp/out" "$tmp/err"
    result "$name" $?
}

# Instruction sets that this machine has, best first; with sanitizers the best one.
isas() {
    {
        grep -qw avx512vl /proc/cpuinfo && grep -qw avx512dq /proc/cpuinfo && echo avx512
        grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo && echo avx2
        echo scalar
    } | { [ $sanitized -eq 1 ] && head -n 1 || cat; }
}
