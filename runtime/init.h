// init.h - initial values of parameters.

#ifndef PCVR_INIT_H
#define PCVR_INIT_H

#include <stdint.h>

#include "pcvr.h"

// Fills out[p->size] as p->init says. A draw depends on seed, full name and element only,
// not on the other parameters, their order or threads. Xavier fans are those of a matrix
// [out, in]; further axes multiply both. Row 0 of a padded table is zero. Draws are
// Philox4x32-10 under the key seed with the counter (element / 4, hash of the name):
// uniform from 32 bits, normal by Box and Muller.
void pcvr_init_fill(float *out, const pcvr_param *p, uint64_t seed);
// The same for every parameter of a runner, on all its threads.
void pcvr_init_params(pcvr_runner *r, const pcvr_module *m, uint64_t seed);

#endif
