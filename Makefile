# Makefile - builds the compiler, the runtime, the driver and their tests.
#
# make          build/pcvrc and build/pcvr (after make deps)
# make deps     missing Debian packages, the pinned pyarrow wheel; PYARROW=DIR takes another
# make test     every test; T=pattern picks some, SAN=1 builds with the address and undefined
#               behaviour sanitizers, SAN=thread with the thread sanitizer
# make demo     synthetic data, and a model trained on it: MODEL=onetrans or another of models/
# make install  under PREFIX (/usr/local), below DESTDIR; make uninstall takes it away again
# make bless    records anew what the compiler writes for tests/golden/emitted, and what it counts
# make bench    a step of each model for each checkpoint choice, as tables in build/bench;
#               MODEL=name picks one, BATCH=32, ITERS=10, PCVR_ISA=avx2 change it
# make bench-peers  UPSTREAM=DIR: the same steps in turns with PyTorch's, DIR a checkout of the
#               reference; PYTHON=one that has torch, MODES=eager,checkpoint,compile, ROUNDS=5
# make bench-kernels  rates of the CPU kernels
# make fuzz     libFuzzer over every parser of outside input, FUZZ_S seconds each (needs clang)
# make format   clang-format over the hand-written sources

# As many jobs as there are cores, unless told.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

SAN ?=
BUILD := $(if $(SAN),$(if $(filter thread,$(SAN)),build-tsan,build-san),build)
CC ?= cc
CXX ?= c++
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wwrite-strings -Wvla -Wundef -Wdouble-promotion -Wfloat-conversion
OPT ?= -O2 -g
NUM := -ffp-contract=off -fno-math-errno
comma := ,
SANFLAGS := $(if $(filter thread,$(SAN)),-fsanitize=thread,$(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer))
INC := -Icompiler -Iruntime -Iruntime/kernels -Iruntime/data -Iruntime/driver -I$(BUILD)
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPT) $(NUM) $(WARN) $(SANFLAGS) $(INC) $(CFLAGS)
LIBS := -ljansson -lm -ldl -lpthread

.PHONY: all test demo bless install uninstall fuzz format clean deps bench bench-peers bench-kernels
.DELETE_ON_ERROR:
.SECONDARY:

COMPILER_SRC := $(filter-out compiler/main.c,$(wildcard compiler/*.c))
RUNTIME_SRC := $(wildcard runtime/*.c runtime/data/*.c)
DRIVER_SRC := $(wildcard runtime/driver/*.c)
TEST_SRC := $(wildcard tests/*/test_*.c)

GEN_C := $(if $(wildcard compiler/lexer.re),$(BUILD)/lexer.c) \
         $(if $(wildcard compiler/parser.y),$(BUILD)/parser.c)
COMPILER_OBJ := $(strip $(COMPILER_SRC:%.c=$(BUILD)/%.o) $(GEN_C:.c=.o))
RUNTIME_OBJ := $(RUNTIME_SRC:%.c=$(BUILD)/%.o)
DRIVER_OBJ := $(DRIVER_SRC:%.c=$(BUILD)/%.o)
TEST_BIN := $(foreach t,$(TEST_SRC),$(BUILD)/tests/$(word 2,$(subst /, ,$t))_$(patsubst test_%.c,%,$(notdir $t)))

ARCHIVES := $(if $(COMPILER_OBJ),$(BUILD)/libpcvrc.a) $(if $(RUNTIME_OBJ),$(BUILD)/libpcvr.a)
# The driver without its main, so that tests can link it.
DRIVER_LIB := $(if $(filter-out runtime/driver/main.c,$(DRIVER_SRC)),$(BUILD)/libdriver.a)
PROGRAMS := $(if $(wildcard compiler/main.c),$(BUILD)/pcvrc) $(if $(DRIVER_OBJ),$(BUILD)/pcvr)

# What the build needs. The wheel and the Parquet library are shared with SAN=1 builds.
DEPS := build/.deps$(subst /,_,$(PYARROW))
PARQUET := build/libpcvr_parquet.so

all: $(ARCHIVES) $(PROGRAMS) $(PARQUET)

deps: $(DEPS)
$(DEPS): runtime/data/pyarrow.txt runtime/data/deps.sh
	@mkdir -p build && rm -f build/.deps*
	PYARROW='$(PYARROW)' runtime/data/deps.sh build
	@touch $@
$(GEN_C) $(COMPILER_OBJ) $(RUNTIME_OBJ) $(DRIVER_OBJ): | $(DEPS)

$(PARQUET): runtime/data/parquet_shim.cc runtime/data/parquet_shim.h $(DEPS)
	$(CXX) -std=c++20 -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden \
	    -isystem build/pyarrow/pyarrow/include -o $@ $< \
	    build/pyarrow/pyarrow/libparquet.so.* build/pyarrow/pyarrow/libarrow.so.* \
	    -Wl,-rpath,'$$ORIGIN:$$ORIGIN/pyarrow/pyarrow' -Wl,--no-undefined

$(BUILD)/lexer.c: compiler/lexer.re
	@mkdir -p $(@D)
	re2c -W --no-generation-date -o $@ $<
$(BUILD)/parser.c: compiler/parser.y
	@mkdir -p $(@D)
	lemon -c -q -d$(BUILD) $<
$(BUILD)/parser.h: $(BUILD)/parser.c ;
$(COMPILER_OBJ): $(if $(wildcard compiler/parser.y),$(BUILD)/parser.c)
$(BUILD)/parser.o $(BUILD)/lexer.o: WARN := -Wall

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(BUILD)/%.o: $(BUILD)/%.c
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(BUILD)/libpcvrc.a: $(COMPILER_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/libpcvr.a: $(RUNTIME_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/pcvrc: $(BUILD)/compiler/main.o $(ARCHIVES)
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/libdriver.a: $(filter-out $(BUILD)/runtime/driver/main.o,$(DRIVER_OBJ))
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/pcvr: $(BUILD)/runtime/driver/main.o $(DRIVER_LIB) $(ARCHIVES)
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

# One program for each tests/<kind>/test_<name>.c, named <kind>_<name>.
define test_rule
$(BUILD)/tests/$(word 2,$(subst /, ,$1))_$(patsubst test_%.c,%,$(notdir $1)): $(BUILD)/$(1:.c=.o) $(DRIVER_LIB) $(ARCHIVES)
	@mkdir -p $$(@D)
	$(CC) $(SANFLAGS) -o $$@ $$(filter %.o,$$^) $(DRIVER_LIB) $(ARCHIVES) -lcmocka $(LIBS)
endef
$(foreach t,$(TEST_SRC),$(eval $(call test_rule,$t)))

# The CPU kernels are header code, compiled once an instruction set. tests/numeric/isa/<name>.c is
# the body of the program numeric_kernels_<name>, which runs it for each set the CPU has.
ISA_scalar := -DPCVR_ISA_SCALAR
ISA_avx2 := -DPCVR_ISA_AVX2 -mavx2 -mfma
ISA_avx512 := -DPCVR_ISA_AVX512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma \
              -mprefer-vector-width=512
define isa_rule
$(BUILD)/%.$1.o: %.c
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_ALL) $(ISA_$1) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,scalar avx2 avx512,$(eval $(call isa_rule,$i)))
define isa_test_rule
$(BUILD)/tests/numeric_kernels_$1: $(foreach i,scalar avx2 avx512,$(BUILD)/tests/numeric/isa/$1.$i.o)
endef
$(foreach n,$(patsubst tests/numeric/isa/%.c,%,$(wildcard tests/numeric/isa/*.c)),$(eval $(call isa_test_rule,$n)))

# Rates of the CPU kernels for each instruction set this machine has.
bench-kernels: $(foreach i,scalar avx2 avx512,$(BUILD)/bench/kernels.$i)
	@for i in scalar avx2 avx512; do case $$i in scalar) f=.;; avx2) f=' avx2';; *) f=' avx512vl';; esac; \
	    if grep -q "$$f" /proc/cpuinfo; then $(BUILD)/bench/kernels.$$i; fi; done
$(BUILD)/bench/kernels.%: $(BUILD)/tests/bench/bench_kernels.%.o
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $< $(LIBS)

# MODEL picks only where it is given here: the demo has a default of its own.
BENCH_FLAGS = --build $(BUILD) $(if $(BENCH_MODEL),--model $(BENCH_MODEL)) $(if $(BATCH),--batch $(BATCH)) \
              $(if $(ITERS),--iters $(ITERS))
BENCH_MODEL := $(MODEL)
bench: all
	@python3 tests/bench/bench.py $(BENCH_FLAGS)
bench-peers: all
	@test -n '$(UPSTREAM)' || { echo "bench-peers: expected UPSTREAM=DIR, a checkout of the reference" >&2; exit 2; }
	@python3 tests/bench/bench_peers.py $(BENCH_FLAGS) --upstream '$(UPSTREAM)' $(if $(PYTHON),--python '$(PYTHON)') \
	    $(if $(MODES),--modes $(MODES)) $(if $(ROUNDS),--rounds $(ROUNDS))

test: all $(TEST_BIN)
	@BUILD=$(BUILD) T='$(T)' PCVR_CFLAGS='$(if $(SAN),-O1 $(SANFLAGS)) $(PCVR_CFLAGS)' tests/run

MODEL ?= onetrans
demo: all
	@BUILD=$(BUILD) tests/driver/demo $(MODEL)

bless: all
	@BUILD=$(BUILD) BLESS=1 tests/passes/test_golden.sh
	@BUILD=$(BUILD) BLESS=1 tests/bench/test_counts.sh

# Programs find the rest by their own place, so the tree may be moved as a whole.
PREFIX ?= /usr/local
ROOT := $(DESTDIR)$(PREFIX)
INSTALL ?= install
INSTALLED := bin/pcvrc bin/pcvr lib/libpcvr.a lib/pcvr include/pcvr share/pcvrc
ARROW_LIBS = $(wildcard build/pyarrow/pyarrow/libarrow.so.* build/pyarrow/pyarrow/libparquet.so.*)
install: all
	$(INSTALL) -d $(addprefix '$(ROOT)'/,bin lib/pcvr include/pcvr/kernels share/pcvrc/models/lib share/pcvrc/doc)
	$(INSTALL) -m 755 $(BUILD)/pcvrc $(BUILD)/pcvr '$(ROOT)'/bin
	$(INSTALL) -m 644 $(BUILD)/libpcvr.a '$(ROOT)'/lib
	$(INSTALL) -m 755 $(PARQUET) $(ARROW_LIBS) '$(ROOT)'/lib/pcvr
	$(INSTALL) -m 644 runtime/pcvr.h '$(ROOT)'/include/pcvr
	$(INSTALL) -m 644 $(wildcard runtime/kernels/*.h) '$(ROOT)'/include/pcvr/kernels
	$(INSTALL) -m 644 $(wildcard models/*.pcvr) models/official.json models/pcvrc.mk '$(ROOT)'/share/pcvrc/models
	$(INSTALL) -m 644 $(wildcard models/lib/*.pcvr) '$(ROOT)'/share/pcvrc/models/lib
	$(INSTALL) -m 644 LICENSE compiler/LANGUAGE.md '$(ROOT)'/share/pcvrc/doc

uninstall:
	rm -rf $(addprefix '$(ROOT)'/,$(INSTALLED))

FUZZ_S ?= 20
fuzz: all
	@if ! command -v clang >/dev/null; then echo "skip fuzz: no clang"; else \
	    $(MAKE) BUILD=build-fuzz SAN=1 CC=clang CFLAGS='-fsanitize=fuzzer-no-link -DPCVRC_MAX_STEPS=200000' \
	        $(patsubst $(BUILD)/%,build-fuzz/%,$(ARCHIVES) $(DRIVER_LIB)) && \
	    tests/fuzz/run build-fuzz $(FUZZ_S); fi

format:
	clang-format -i $(wildcard compiler/*.[ch] runtime/*.[ch] runtime/*/*.[ch] tests/*/*.[ch])

clean:
	rm -rf build build-san build-tsan build-fuzz

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
