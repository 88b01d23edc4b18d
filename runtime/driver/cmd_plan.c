// cmd_plan.c - pcvr plan: the bytes of a step, and every kept value, without compiling or running one.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "commands.h"
#include "report.h"

static void
plan_json(const BenchFlags *f, const pcvr_module *m, const pcvr_plan *p)
{
    json_t *o = json_object(), *kept = json_array();
    json_object_set_new(o, "model", json_string(m->name));
    json_object_set_new(o, "checkpoint", json_string(f->checkpoint));
    json_object_set_new(o, "batch", json_integer(p->batch));
    json_object_set_new(o, "threads", json_integer(p->threads));
    json_object_set_new(o, "lanes", json_integer(p->lanes));
    json_object_set_new(o, "chunk",
                        f->o.chunk == PCVR_CHUNK_BATCH ? json_string("batch")
                                                       : json_integer(p->chunk));
    bench_flops_json(o, m, p->batch);
    bench_plan_json(o, p);
    for (int k = 0; k < m->n_kept; k++)
        json_array_append_new(kept, json_pack("{s:s, s:s, s:I}", "region",
                                              m->regions[m->kept[k].region].name, "value",
                                              m->kept[k].value, "bytes",
                                              (json_int_t)m->kept[k].bytes));
    json_object_set_new(o, "kept", kept);
    bench_print(o);
}

static void
plan_text(const BenchFlags *f, const pcvr_module *m, const pcvr_plan *p)
{
    printf("%s, checkpoint %s, batch %" PRId64 ", chunk %" PRId64 ", %" PRId64
           " lanes, %" PRId64 " threads\n",
           m->name, f->checkpoint, p->batch, p->chunk, p->lanes, p->threads);
    printf("  kept a sample  %12" PRId64 "\n", p->kept_bytes_per_sample);
    printf("  parameters     %12" PRId64 "\n", p->parameter_bytes);
    printf("  gradients      %12" PRId64 "\n", p->gradient_bytes);
    printf("  row stores     %12" PRId64 "\n", p->row_store_bytes);
    printf("  inputs         %12" PRId64 "\n", p->input_bytes);
    printf("  activations    %12" PRId64 "\n", p->activation_bytes);
    printf("  peak           %12" PRId64 " bytes\n", p->planned_peak_bytes);
    for (int k = 0; k < m->n_kept; k++)
        printf("  keeps %10" PRId64 " %s: %s\n", m->kept[k].bytes,
               m->regions[m->kept[k].region].name, m->kept[k].value);
}

int
cmd_plan(int argc, char **argv)
{
    BenchFlags f;
    PcvrError err = {""};
    pcvr_module module;
    ModelIn in;
    Schema *schema = NULL;
    pcvr_plan p;
    if (flags_ask_help(argc, argv)) {
        printf("usage: pcvr plan --model MODEL --schema FILE [flags]\n\n%s",
               bench_flags_help);
        return 0;
    }
    if (!bench_flags(&f, argc, argv, true, &err)) {
        fprintf(stderr, "pcvr plan: error: %s\n", err.text);
        bench_flags_free(&f);
        return 2;
    }
    int status = bench_passes(&f, f.checkpoint, &in, &schema);
    if (status == 0)
        module = tiles_module(compile_tiles(&in.c), schema, in.c.name);
    if (status == 0 && pcvr_plan_bytes(&module, f.batch, &f.o, &p) != PCVR_OK) {
        fprintf(stderr,
                "pcvr plan: error: batch, lanes, threads or chunk out of range\n");
        status = 2;
    } else if (status == 0) {
        idle_note(f.threads, &p);
        if (f.json)
            plan_json(&f, &module, &p);
        else
            plan_text(&f, &module, &p);
    }
    model_close(&in);
    schema_free(schema);
    bench_flags_free(&f);
    return status;
}
