// test_kernels_rows.c - runs isa/rows.c for every instruction set of this machine.

#include "isa/run.h"

KERNEL_MAIN(rows)
