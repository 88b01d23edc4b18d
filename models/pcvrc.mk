# pcvrc.mk - rules that make modules of model files. In a Makefile:
#
#   PCVRC_MODELS := mine.pcvr other.pcvr      default: the .pcvr files of the directory
#   PCVRC_FLAGS  := --checkpoint=blocks       options of pcvrc, for all models
#   PCVRC_BUILD  := build                     where C texts and objects go
#   include $(shell pcvrc --mk)
#
#   program: main.o $(PCVRC_MODULES)          objects, one for each model and instruction set
#   	$(CC) -o $@ $^ $(PCVRC_LIBS)           with the runtime
#
# A model is compiled again when it, a file it imports or its schema has changed. Plain make still
# makes the first target of your own.

pcvrc_goal := $(.DEFAULT_GOAL)
PCVRC_BUILD ?= build
PCVRC_MODELS ?= $(wildcard *.pcvr)
PCVRC_ISAS ?= scalar avx2 avx512
PCVRC_HOME := $(dir $(lastword $(MAKEFILE_LIST)))
PCVRC ?= $(firstword $(wildcard $(PCVRC_HOME)../../../bin/pcvrc $(PCVRC_HOME)../build/pcvrc) pcvrc)
PCVRC_HEADERS ?= $(firstword $(wildcard $(PCVRC_HOME)../../../include/pcvr $(PCVRC_HOME)../runtime))
PCVRC_RUNTIME ?= $(firstword $(wildcard $(PCVRC_HOME)../../../lib/libpcvr.a $(PCVRC_HOME)../build/libpcvr.a))
PCVRC_LIBS = $(PCVRC_RUNTIME) -ljansson -lm -ldl -lpthread
PCVRC_CFLAGS ?= -O2 -g
PCVRC_C := $(CC) -std=c11 -D_GNU_SOURCE $(PCVRC_CFLAGS) -ffp-contract=off -fno-math-errno \
           -I$(PCVRC_HEADERS) -I$(PCVRC_HEADERS)/kernels

pcvrc_flags_scalar := -DPCVR_ISA_SCALAR
pcvrc_flags_avx2 := -DPCVR_ISA_AVX2 -mavx2 -mfma
pcvrc_flags_avx512 := -DPCVR_ISA_AVX512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma \
                      -mprefer-vector-width=512

# $(call pcvrc_model,file,stem)
define pcvrc_model
PCVRC_MODULES += $(foreach i,$(PCVRC_ISAS),$(PCVRC_BUILD)/$2/$2.$i.o)
$(PCVRC_BUILD)/$2/$2.c: $1
	$$(PCVRC) $1 -o $(PCVRC_BUILD)/$2 -MD -MP $$(PCVRC_FLAGS)
$(foreach i,$(PCVRC_ISAS),$(eval $(call pcvrc_object,$2,$i)))
-include $(PCVRC_BUILD)/$2/$2.d
endef

# $(call pcvrc_object,stem,instruction set)
define pcvrc_object
$(PCVRC_BUILD)/$1/$1.$2.o: $(PCVRC_BUILD)/$1/$1.c
	$$(PCVRC_C) $(pcvrc_flags_$2) -c -o $$@ $$<
endef

PCVRC_MODULES :=
$(foreach m,$(PCVRC_MODELS),$(eval $(call pcvrc_model,$m,$(basename $(notdir $m)))))
.DEFAULT_GOAL := $(pcvrc_goal)
