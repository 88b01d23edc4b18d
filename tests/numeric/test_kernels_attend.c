// test_kernels_attend.c - runs isa/attend.c for every instruction set of this machine.

#include "isa/run.h"

KERNEL_MAIN(attend)
