// pcvr_kernels.h - everything generated C code calls: vectors, products, attention, rows.
//
// Header code, private to the file that includes it, compiled once an instruction set
// (pcvr_isa.h says how).  Nothing allocates, nothing is shared between threads, nothing reads
// or writes past the extents its arguments name.  Sizes are int, distances between rows
// ptrdiff_t, both counted in elements.  Names: v_ a vector operation, k_ a kernel.
//
// pcvr_isa.h       v_f32, v_load_n, v_store_n, ..., K_EACH(i, lanes, n, body)
// pcvr_vmath.h     v_exp v_log v_log1p v_tanh v_sigmoid v_silu v_silu_grad v_softplus v_erf
//                  v_gelu v_gelu_grad v_relu v_sign v_is_finite v_sin v_cos v_pow
//                  v_sin_near v_cos_near v_turn
// pcvr_move.h      k_copy k_fill k_add k_axpy k_transpose
// pcvr_gemm.h      k_gemm_nn k_gemm_tn k_gemm_nt, k_pack_bt
// pcvr_rows.h      k_sum k_dot k_largest k_smallest k_row_sum k_col_sum k_col_max
//                  k_layer_norm[_back] k_rms_norm[_back] k_softmax[_back]
// pcvr_embed.h     k_lookup k_gather_rows k_scatter_rows k_bag_mean k_bag_weight
//                  k_rope_table k_rope_halves k_rope_adjacent
// pcvr_random.h    k_drop (struct), k_dropout k_dropout_add k_drop_factors k_chance
// pcvr_attend.h    k_attend (struct), k_attention; pcvr_attend_back.h k_attention_back; parts and few: theirs
// pcvr_kernel_sizes.h  K_ATTEND_SCRATCH K_ATTEND_BACK_SCRATCH: plain C, for the planner too
#ifndef PCVR_KERNELS_H
#define PCVR_KERNELS_H

#include "pcvr_attend.h"
#include "pcvr_attend_back.h"
#include "pcvr_embed.h"
#include "pcvr_gemm.h"
#include "pcvr_isa.h"
#include "pcvr_kernel_sizes.h"
#include "pcvr_move.h"
#include "pcvr_random.h"
#include "pcvr_rows.h"
#include "pcvr_vmath.h"

#endif
