// test_kernels_gemm.c - runs isa/gemm.c for every instruction set of this machine.

#include "isa/run.h"

KERNEL_MAIN(gemm)
