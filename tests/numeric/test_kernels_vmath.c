// test_kernels_vmath.c - runs isa/vmath.c for every instruction set of this machine.

#include "isa/run.h"

KERNEL_MAIN(vmath)
