// isa.h - compiler flags of the instruction sets; see pcvr.h for the rest of isa.c.

#ifndef PCVR_ISA_CHOICE_H
#define PCVR_ISA_CHOICE_H

#include "pcvr.h"

// The flags that compile generated code for an instruction set, NULL-terminated.
const char *const *pcvr_isa_flags(const char *isa);

#endif
