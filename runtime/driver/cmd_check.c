// cmd_check.c - pcvr check: one recorded case against what a model returns for it.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_run.h"
#include "commands.h"
#include "compare.h"
#include "experiment.h"
#include "json.h"
#include "run_flags.h"

static const char help[] =
    "usage: pcvr check --model MODEL --case DIR [flags]\n"
    "\n"
    "  --model MODEL       FILE.pcvr, a folder with a model.pcvr, or an installed "
    "model's "
    "name\n"
    "  --case DIR          the recorded case\n"
    "  --target c|interp   compiled (default), or in double precision by the "
    "interpreter\n"
    "  --checkpoint C      none (default), blocks, sample, or names of blocks\n"
    "  --chunk N|batch     samples of a chunk; batch: all forward, then all backward\n"
    "  --lanes N           parts a batch is cut into (8; below 64 samples 4 to 7)\n"
    "  --threads N         all that affinity and quota allow\n"
    "  --batch-hint N      samples of a batch, for what is compiled (as configured)\n"
    "  --model.NAME VALUE  another configuration: nothing is compared\n"
    "  --seed N            seed of chance: nothing is compared\n"
    "  --logits            compare the logits only\n"
    "  --poison            repeat the step with NaN in buffers, in rows of tables that\n"
    "                      nothing looks up and in padded events: no bit may change\n"
    "  --poison-from N     leave padding at positions below N alone (0)\n"
    "  --grads FILE        write logits, loss and every gradient as safetensors\n"
    "  --json              print the result as JSON\n";

typedef struct CheckFlags {
    const char *model, *dir, *target, *checkpoint, *chunk, *grads;
    int64_t lanes, threads, seed, poison_from, batch_hint;
    int logits, poison, json;
    ModelFlags fields;
} CheckFlags;

static bool
check_flags(CheckFlags *f, int argc, char **argv, CheckRun *r, PcvrError *err)
{
    *f = (CheckFlags){.target = "c",
                      .checkpoint = "none",
                      .lanes = NOT_GIVEN,
                      .threads = NOT_GIVEN,
                      .seed = NOT_GIVEN,
                      .poison_from = NOT_GIVEN,
                      .batch_hint = NOT_GIVEN};
    const Flag flags[] = {
        {"model", FLAG_TEXT, &f->model},
        {"case", FLAG_TEXT, &f->dir},
        {"target", FLAG_TEXT, &f->target},
        {"checkpoint", FLAG_TEXT, &f->checkpoint},
        {"chunk", FLAG_TEXT, &f->chunk},
        {"lanes", FLAG_COUNT, &f->lanes},
        {"threads", FLAG_COUNT, &f->threads},
        {"seed", FLAG_SIZE, &f->seed},
        {"logits", FLAG_PLAIN, &f->logits},
        {"poison", FLAG_PLAIN, &f->poison},
        {"grads", FLAG_TEXT, &f->grads},
        {"json", FLAG_PLAIN, &f->json},
        {"poison-from", FLAG_SIZE, &f->poison_from},
        {"batch-hint", FLAG_SIZE, &f->batch_hint},
    };
    if (!model_flags_take(&f->fields, argc, argv, err) ||
        !flags_parse(f->fields.n_rest, f->fields.rest, flags,
                     sizeof flags / sizeof *flags, NULL, err))
        return false;
    if (f->model == NULL || f->dir == NULL)
        return pcvr_fail(err, "expected --model MODEL and --case DIR");
    r->interpreter = strcmp(f->target, "interp") == 0;
    if (!r->interpreter && strcmp(f->target, "c") != 0)
        return pcvr_fail(err, "--target is '%s', expected c or interp", f->target);
    if (r->interpreter && f->poison)
        return pcvr_fail(err, "--poison needs --target c");
    if (f->poison_from != NOT_GIVEN && !f->poison)
        return pcvr_fail(err, "--poison-from needs --poison");
    if (f->logits && f->grads != NULL)
        return pcvr_fail(err, "--logits computes no gradients for --grads");
    r->checkpoint = f->checkpoint;
    r->logits_only = f->logits != 0;
    r->o.poison = f->poison != 0;
    r->o.poison_from = f->poison_from == NOT_GIVEN ? 0 : f->poison_from;
    r->changed = f->fields.n > 0;
    r->seed = f->seed == NOT_GIVEN ? 0 : (uint64_t)f->seed;
    return lanes_take(f->lanes, f->threads, &r->o, err) &&
           chunk_parse(f->chunk, &r->o.chunk, err);
}

// Model, configuration of the case and of the command line, graph.
static int
check_model(const CheckFlags *f, ModelIn *m, const Case *c)
{
    int status = experiment_model(m, f->model);
    m->c.batch_hint = f->batch_hint;
    if (status == 0)
        status = model_set_json(m, json_object_get(c->json, "config"), c->dir);
    for (int k = 0; status == 0 && k < f->fields.n; k++) {
        const ModelFlag *o = &f->fields.list[k];
        status = model_set(m, o->name, o->value, o->flag);
    }
    return status != 0 ? status : model_elaborate(m, c->schema);
}

static json_t *
chunk_json(const CheckRun *r)
{
    if (r->o.chunk == PCVR_CHUNK_BATCH)
        return json_string("batch");
    return r->interpreter ? json_null() : json_integer(r->plan.chunk);
}

static void
print_json(const CheckRun *r, const Case *c, const Verdict *v)
{
    json_t *worst = json_null();
    if (v->worst != NULL)
        worst =
            json_pack("{s:s, s:o, s:o}", "name", v->worst, "error",
                      json_finite(v->worst_error), "limit", json_finite(v->worst_limit));
    bool loss = !r->logits_only, compared = v->compared;
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:o, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:i}", "case",
                  c->name, "checkpoint", r->checkpoint, "chunk", chunk_json(r), "lanes",
                  r->interpreter ? json_null() : json_integer(r->plan.lanes), "target",
                  r->interpreter ? "interp" : "c", "isa",
                  r->interpreter ? json_null() : json_string(r->isa), "pass", v->pass,
                  "loss", loss ? json_finite(v->loss) : json_null(), "loss_error",
                  loss && compared ? json_finite(v->loss_error) : json_null(),
                  "logits_error", compared ? json_finite(v->logits_error) : json_null(),
                  "worst_gradient", worst, "gradients", v->gradients);
    if (o != NULL && r->o.poison)
        json_object_set_new(o, "poison",
                            json_pack("{s:I, s:I}", "rows", (json_int_t)r->poison.rows,
                                      "padding_rows",
                                      (json_int_t)r->poison.padding_rows));
    if (o != NULL && v->reason[0] != '\0')
        json_object_set_new(o, "reason", json_string(v->reason));
    char *text = o != NULL ? json_text(o, 2) : NULL;
    puts(text != NULL ? text : "{}");
    free(text);
    json_decref(o);
}

static void
print_text(const CheckRun *r, const Case *c, const Verdict *v)
{
    printf("%s: %s", c->name, r->interpreter ? "interpreter" : r->isa);
    if (!r->interpreter)
        printf(", checkpoint %s, chunk %lld, %lld lanes", r->checkpoint,
               (long long)r->plan.chunk, (long long)r->plan.lanes);
    puts("");
    if (v->compared) {
        printf("  logits     error %.3g, limit %.3g\n", v->logits_error, v->logits_limit);
        if (!r->logits_only)
            printf("  loss       %.9g, error %.3g, limit %.3g\n", v->loss, v->loss_error,
                   v->loss_limit);
        if (v->worst != NULL)
            printf("  gradients  %d, worst %s: error %.3g, limit %.3g\n", v->gradients,
                   v->worst, v->worst_error, v->worst_limit);
    } else {
        puts("  nothing compared: configuration or seed differ from the case's; looked "
             "for NaN");
    }
    if (r->o.poison)
        printf("  poison     %lld rows that nothing looks up, %lld that padding does\n",
               (long long)r->poison.rows, (long long)r->poison.padding_rows);
    if (v->reason[0] != '\0')
        printf("  %s\n", v->reason);
    puts(v->pass ? "pass" : "FAIL");
}

static int
check_report(const CheckFlags *f, const CheckRun *r, const Case *c)
{
    Outcome o = {.logits = r->logits,
                 .loss = r->loss,
                 .grads = r->grads.tensors,
                 .n_grads = r->grads.n,
                 .logits_only = r->logits_only};
    Verdict v;
    Case resized =
        *c; // the logits have the model's width; an expected one of another is refused
    resized.actions = r->actions;
    if (r->changed || f->seed != NOT_GIVEN)
        compare_finite(&resized, &o, &v);
    else
        compare_case(&resized, &o, &v);
    if (r->overrun != NULL) {
        v.pass = false;
        snprintf(v.reason, sizeof v.reason, "the module wrote past the end of its %s",
                 r->overrun);
    }
    if (r->poison.reason[0] != '\0') {
        v.pass = false;
        snprintf(v.reason, sizeof v.reason, "%s", r->poison.reason);
    }
    if (f->json)
        print_json(r, c, &v);
    else
        print_text(r, c, &v);
    return v.pass ? 0 : 1;
}

static int
check_case(const CheckFlags *f, CheckRun *r)
{
    Case c;
    ModelIn m;
    PcvrError err = {""};
    if (!case_load(&c, f->dir, &err)) {
        fprintf(stderr, "pcvr: error: %s\n", err.text);
        return 1;
    }
    int status = check_model(f, &m, &c);
    if (status == 0)
        status = check_run(r, &m, &c);
    if (status == 0 && !r->interpreter)
        idle_note(f->threads, &r->plan);
    if (status == 0 && f->grads != NULL &&
        !results_write(f->grads, c.batch.size, r->actions, r->logits, r->loss, &r->grads,
                       &err)) {
        fprintf(stderr, "pcvr: error: %s\n", err.text);
        status = 1;
    }
    if (status == 0)
        status = check_report(f, r, &c);
    check_run_free(r);
    model_close(&m);
    case_free(&c);
    return status;
}

int
cmd_check(int argc, char **argv)
{
    CheckFlags f;
    CheckRun r = {0};
    PcvrError err = {""};
    int status = 2;
    if (flags_ask_help(argc, argv)) {
        fputs(help, stdout);
        return 0;
    }
    if (check_flags(&f, argc, argv, &r, &err))
        status = check_case(&f, &r);
    else
        fprintf(stderr, "pcvr check: error: %s\n", err.text);
    model_flags_free(&f.fields);
    return status;
}
