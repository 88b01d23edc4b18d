// fma_peak.h - how many multiply-adds this machine does when nothing else is asked of it.

#ifndef PCVR_DRIVER_FMA_PEAK_H
#define PCVR_DRIVER_FMA_PEAK_H

// Floating-point operations a second, in 1e9, of a fixed loop of independent fused
// multiply-adds (separate multiplications and additions for "scalar") in the vectors of
// an instruction set, on that many threads at once, for some milliseconds. 0 when threads
// cannot be started.
double fma_peak_gflops(const char *isa, int threads);

#endif
