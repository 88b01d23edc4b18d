#!/usr/bin/env bash
# test_data_threads.sh - the reader's tests under the thread sanitizer.
set -u
out=build/tsan
if ! echo 'int main(void) { return 0; }' | cc -fsanitize=thread -x c -o /dev/null - 2>/dev/null; then
    echo "skip data_threads: the compiler has no thread sanitizer"
    exit 0
fi
mkdir -p "$out"
src="runtime/data/*.c runtime/error.c runtime/file.c runtime/metric*.c runtime/loss.c runtime/numbers.c runtime/safetensors*.c"
for name in batches; do
    # shellcheck disable=SC2086
    cc -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=thread -Iruntime -Iruntime/data -o "$out/$name" \
        "tests/driver/test_data_$name.c" $(ls $src 2>/dev/null) -lcmocka -ljansson -lm -ldl -lpthread || exit 1
    if TSAN_OPTIONS=halt_on_error=1 PCVR_PARQUET=build/libpcvr_parquet.so "$out/$name" >"$out/$name.log" 2>&1; then
        echo "ok data_threads_$name"
    else
        tail -40 "$out/$name.log"
        echo "FAIL data_threads_$name"
    fi
done
