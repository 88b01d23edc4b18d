// pcvr_kernel_sizes.h - how much memory kernels need from their caller; no instruction set.
#ifndef PCVR_KERNEL_SIZES_H
#define PCVR_KERNEL_SIZES_H

// Queries of a block of attention, at most, on any instruction set.
#define K_ATTEND_BLOCK 64

// Queries that are fewer than lanes, at most, on any instruction set.
#define K_ATTEND_FEW_MOST 8

// Keys that are taken through all steps of attention at a time.
#define K_ATTEND_STEP 48

// Floats of scratch for attention: S keys, S0 keys as the model writes them (drop elements
// are counted in them; S0 = S without dropout), W lanes a head.  Forward: scores of all
// keys, probabilities of a step, q' and out'; backward: probabilities and their gradients
// of a step (or rows of all keys for a handful of queries), q', dq' and dout'.  Both: seen keys
// and their runs, drop bits by lane and by row.
#define K_ATTEND_SCRATCH(S, S0, W)                                                       \
    (K_ATTEND_BLOCK * ((S) + K_ATTEND_STEP + 2 * (W)) + 3 * (S) + 4 * (S0) + 160)
#define K_ATTEND_BACK_SCRATCH(S, S0, W)                                                  \
    (K_ATTEND_BLOCK * (2 * K_ATTEND_STEP + 3 * (W)) + 2 * K_ATTEND_FEW_MOST * (S) +      \
     3 * (S) + 4 * (S0) + 160)

// Bytes of a key's row of mask bits for T queries.
#define K_MASK_ROW(T) (((T) + 31) / 32 * 4)

#endif
