// test_kernels_random_bits.c - runs isa/random_bits.c for every instruction set of this machine.

#include "isa/run.h"

KERNEL_MAIN(random_bits)
