// bench.c - what bench and plan share: flags, and a model compiled for one checkpoint choice.

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment.h"
#include "json.h"

const char bench_flags_help[] =
    "  --model MODEL         FILE.pcvr, a folder with a model.pcvr, or an installed "
    "model's "
    "name\n"
    "  --schema FILE         schema.json\n"
    "  --batch N             samples (64)\n"
    "  --lengths full|mixed  of sequences (full)\n"
    "  --checkpoint C        none (default), blocks, sample, or names of blocks\n"
    "  --chunk N|batch       samples of a chunk; batch: all forward, then all backward\n"
    "  --lanes N             parts a batch is cut into (8; below 64 samples 4 to 7)\n"
    "  --threads N           all that affinity and quota allow\n"
    "  --vocab-cap N         a vocabulary v becomes max(2, min(v, N))\n"
    "  --batch-hint N        samples of a batch, for what is compiled "
    "(data.batch_size);\n"
    "                        tables with fewer rows than lookups are projected; 0: none\n"
    "  --dropout P|model     dropout_rate, or as configured (0: no chance at all)\n"
    "  --model.NAME VALUE    a field of the configuration\n"
    "  --json                print JSON\n";

const char bench_only_help[] =
    "  --against C[:CHUNK]   a second choice, run alternately\n"
    "  --iters N             measured steps (10)\n"
    "  --grads FILE          write logits, loss and every gradient as safetensors\n";

static bool
against_take(BenchFlags *f, PcvrError *err)
{
    if (f->against == NULL)
        return true;
    f->against_choice = strdup(f->against);
    if (f->against_choice == NULL)
        return pcvr_fail(err, "out of memory");
    f->against_chunk = f->o.chunk;
    char *colon = strrchr(f->against_choice, ':');
    if (colon == NULL)
        return true;
    *colon = '\0';
    return chunk_parse(colon + 1, &f->against_chunk, err);
}

// "model", or a number from 0 to 1.
static bool
dropout_check(const char *text, PcvrError *err)
{
    char *end;
    if (strcmp(text, "model") == 0)
        return true;
    double p = strtod(text, &end);
    if (end == text || *end != '\0' || !(p >= 0.0 && p <= 1.0))
        return pcvr_fail(err, "--dropout is '%s', expected 0 to 1 or 'model'", text);
    return true;
}

bool
bench_flags(BenchFlags *f, int argc, char **argv, bool plan, PcvrError *err)
{
    *f = (BenchFlags){.checkpoint = "none",
                      .lengths = "full",
                      .dropout = "0",
                      .batch = 64,
                      .lanes = NOT_GIVEN,
                      .threads = NOT_GIVEN,
                      .vocab_cap = NOT_GIVEN,
                      .batch_hint = NOT_GIVEN,
                      .iters = INT64_MIN};
    const Flag flags[] = {
        {"model", FLAG_TEXT, &f->model},
        {"schema", FLAG_TEXT, &f->schema},
        {"batch", FLAG_INT, &f->batch},
        {"lengths", FLAG_TEXT, &f->lengths},
        {"checkpoint", FLAG_TEXT, &f->checkpoint},
        {"chunk", FLAG_TEXT, &f->chunk_text},
        {"lanes", FLAG_COUNT, &f->lanes},
        {"threads", FLAG_COUNT, &f->threads},
        {"vocab-cap", FLAG_COUNT, &f->vocab_cap},
        {"batch-hint", FLAG_SIZE, &f->batch_hint},
        {"dropout", FLAG_TEXT, &f->dropout},
        {"against", FLAG_TEXT, &f->against},
        {"iters", FLAG_INT, &f->iters},
        {"grads", FLAG_TEXT, &f->grads},
        {"json", FLAG_PLAIN, &f->json},
    };
    if (!model_flags_take(&f->fields, argc, argv, err) ||
        !flags_parse(f->fields.n_rest, f->fields.rest, flags,
                     sizeof flags / sizeof *flags, NULL, err))
        return false;
    if (plan && (f->iters != INT64_MIN || f->grads != NULL || f->against != NULL))
        return pcvr_fail(err, "--iters, --grads and --against are flags of pcvr bench: "
                              "plan runs no step");
    if (f->iters == INT64_MIN)
        f->iters = 10;
    if (f->model == NULL || f->schema == NULL)
        return pcvr_fail(err, "expected --model MODEL and --schema FILE");
    if (f->batch < 1 || f->batch > 1 << 20)
        return pcvr_fail(err, "--batch is %lld, expected 1 to 1048576",
                         (long long)f->batch);
    if (f->iters < 1)
        return pcvr_fail(err, "--iters is %lld, expected at least 1",
                         (long long)f->iters);
    if (strcmp(f->lengths, "full") != 0 && strcmp(f->lengths, "mixed") != 0)
        return pcvr_fail(err, "--lengths is '%s', expected full or mixed", f->lengths);
    return dropout_check(f->dropout, err) &&
           lanes_take(f->lanes, f->threads, &f->o, err) &&
           chunk_parse(f->chunk_text, &f->o.chunk, err) && against_take(f, err);
}

void
bench_flags_free(BenchFlags *f)
{
    model_flags_free(&f->fields);
    free(f->against_choice);
}

// The configuration's defaults, under what the command line says.
static int
configure(const BenchFlags *f, ModelIn *m)
{
    int status = 0;
    if (strcmp(f->dropout, "model") != 0) {
        char *end;
        if (strtod(f->dropout, &end) <= 0.0)
            status = model_quiet(m);
        if (status == 0 && program_find(m->c.program, "dropout_rate") != NULL)
            status = model_set(m, "dropout_rate", f->dropout, "--dropout");
    }
    for (int k = 0; status == 0 && k < f->fields.n; k++) {
        const ModelFlag *o = &f->fields.list[k];
        status = model_set(m, o->name, o->value, o->flag);
    }
    return status;
}

static int
schema_take(const BenchFlags *f, const ModelIn *m, Schema **schema)
{
    DataError e = {""};
    const char *lens = config_seq_max_lens(m->c.config);
    *schema = schema_read(f->schema, &e);
    if (*schema == NULL || schema_set_lens(*schema, lens != NULL ? lens : "", &e) != 0) {
        fprintf(stderr, "pcvr: error: %s\n", e.text);
        return 1;
    }
    if (f->vocab_cap != NOT_GIVEN)
        schema_cap_vocab(*schema, f->vocab_cap);
    return 0;
}

int
bench_passes(const BenchFlags *f, const char *choice, ModelIn *m, Schema **schema)
{
    *schema = NULL;
    int status = experiment_model(m, f->model);
    m->c.batch_hint = f->batch_hint;
    if (status == 0)
        status = configure(f, m);
    if (status == 0)
        status = schema_take(f, m, schema);
    if (status == 0)
        status = model_elaborate(m, *schema);
    if (status == 0)
        status = model_passes(m, choice, true);
    return status;
}

int
bench_compile(const BenchFlags *f, const char *choice, const pcvr_module **out,
              Schema **schema)
{
    ModelIn m;
    int status = bench_passes(f, choice, &m, schema);
    if (status == 0)
        status = model_build(&m, *schema, out);
    model_close(&m);
    if (status != 0) {
        schema_free(*schema);
        *schema = NULL;
    }
    return status;
}

void
bench_flops_json(json_t *o, const pcvr_module *m, int64_t batch)
{
    double needed = 0.0, recomputed = 0.0;
    for (int k = 0; k < m->n_regions; k++) {
        needed += m->regions[k].flops * (double)batch;
        recomputed += m->regions[k].recomputed_flops * (double)batch;
    }
    needed += m->step_flops;
    json_object_set_new(o, "flops_needed", json_real(needed));
    json_object_set_new(o, "flops_recomputed", json_real(recomputed));
}

void
bench_plan_json(json_t *o, const pcvr_plan *p)
{
    const struct {
        const char *name;
        int64_t bytes;
    } fields[] = {
        {"kept_bytes_per_sample", p->kept_bytes_per_sample},
        {"parameter_bytes", p->parameter_bytes},
        {"gradient_bytes", p->gradient_bytes},
        {"row_store_bytes", p->row_store_bytes},
        {"input_bytes", p->input_bytes},
        {"activation_bytes", p->activation_bytes},
        {"planned_peak_bytes", p->planned_peak_bytes},
    };
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        json_object_set_new(o, fields[k].name, json_integer(fields[k].bytes));
}

void
bench_print(json_t *o)
{
    char *text = json_text(o, 2);
    puts(text != NULL ? text : "{}");
    free(text);
    json_decref(o);
}
