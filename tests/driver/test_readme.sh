#!/usr/bin/env bash
# test_readme.sh - every command of README.md runs: those in its blocks marked sh, in a copy of the tree.
#
# Comments are passed over, and so are commands that fetch, install or take long and are tried by
# other tests. Training is cut short: two steps.
. tests/driver/lib.sh
readme=${README:-README.md}
if [ ! -e "$readme" ]; then
    echo "skip readme: there is no $readme"
    exit 0
fi
if [ $sanitized -eq 1 ] || [ ! -e build/libpcvr_parquet.so ]; then
    echo "skip readme: needs the plain build with the Parquet library"
    exit 0
fi

# One command a line: continued lines are joined, a prompt is cut off.
commands() {
    awk '/^```/ { inside = !inside && $0 ~ /^```(sh|bash|shell)[[:space:]]*$/; next }
         inside {
             line = held $0
             if (line ~ /\\$/) { held = substr(line, 1, length(line) - 1); next }
             held = ""
             sub(/^[[:space:]]*(\$ )?/, "", line)
             sub(/[[:space:]]+# .*$/, "", line)
             if (line != "" && line !~ /^#/) print line
         }' "$1"
}

known='^(git clone|cd |sudo |make (test|deps|demo|install|uninstall|fuzz|bless|format|clean|bench-kernels))'

# What a command is called with here.
shortened() {
    case $1 in
    *"pcvr train "*) echo "$1 --optimizer.max_steps 2 --data.batch_size 8" ;;
    *"pcvr bench "*) echo "$1 --iters 1 --batch 8" ;;
    *) echo "$1" ;;
    esac
}

# A tree of links, with a place of its own for what commands write.
tree=$tmp/tree
mkdir -p "$tree/build" "$tree/generated"
for entry in Makefile LICENSE README.md compiler models runtime tests; do
    [ -e "$entry" ] && ln -s "$PWD/$entry" "$tree/$entry"
done
for entry in build/* build/.deps*; do
    [ "$entry" != build/demo ] && ln -s "$PWD/$entry" "$tree/$entry"
done
ln -s "$(realpath ..)/shared" "$tmp/shared"
list=$tmp/commands
commands "$readme" >"$list"
unset MAKEFLAGS MAKELEVEL MFLAGS
cd "$tree" || exit 1
if grep -q 'build/demo' "$list"; then # what make demo leaves
    STEPS=2 SYNTH="--rows 400 --files 2 --group-rows 50 --max-len 12" tests/driver/demo onetrans \
        --data.batch_size 16 >"$tmp/out" 2>&1
fi

ran=0
while IFS= read -r line; do
    if [[ $line =~ $known ]]; then
        echo "tried elsewhere: $line"
        continue
    fi
    ran=$((ran + 1))
    timeout 300 bash -c "$(shortened "$line")" >"$tmp/out" 2>"$tmp/err" </dev/null
    result "readme: $line" $?
done <"$list"
[ $ran -ge ${README_LEAST:-4} ]
result "ran_${ran}_commands" $?
[ "$failed" -eq 0 ]
