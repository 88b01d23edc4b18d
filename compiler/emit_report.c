// emit_report.c - the report of a module: regions, values kept and made again, memory.
//
// FLOPs and bytes are of one sample unless said otherwise. The peak is what the runtime
// plans for the
// batch size of the train section, with its default chunk and lanes and one thread.

#include "report.h"

#include "names.h"

#include "pcvr.h"
#include "schema.h"

#include <inttypes.h>
#include <string.h>

// ---- memory -------------------------------------------------------------------------

static json_t *
plan_json(const Tiles *t, const ReportOptions *o)
{
    pcvr_module m = tiles_module(t, o->schema, o->name);
    pcvr_plan p;
    if (pcvr_plan_bytes(&m, o->batch, &(pcvr_options){.threads = 1}, &p) != PCVR_OK)
        return json_null();
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "batch", (json_int_t)p.batch,
        "chunk", (json_int_t)p.chunk, "lanes", (json_int_t)p.lanes, "threads",
        (json_int_t)p.threads, "parameter_bytes", (json_int_t)p.parameter_bytes,
        "gradient_bytes", (json_int_t)p.gradient_bytes, "row_store_bytes",
        (json_int_t)p.row_store_bytes, "input_bytes", (json_int_t)p.input_bytes,
        "activation_bytes", (json_int_t)p.activation_bytes, "planned_peak_bytes",
        (json_int_t)p.planned_peak_bytes);
}

// ---- regions ------------------------------------------------------------------------

static const char *
line_name(Timeline line)
{
    static const char *const names[] = {"inputs", "forward", "backward"};
    return names[line];
}

static json_t *
regions_json(const Tiles *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s?,s:f,s:f,s:I,s:I,s:i}", "name", r->name, "pass",
                            line_name(r->line), "block", r->call ? r->call->name : NULL,
                            "flops", r->flops, "recomputed_flops", r->recomputed_flops,
                            "kept_bytes", (json_int_t)r->kept_bytes, "scratch_bytes",
                            (json_int_t)r->scratch_bytes, "statements", r->stmts.n));
    }
    return list;
}

// ---- values -------------------------------------------------------------------------

// "h", or the operation where the model gives no name; and where it stands.
static json_t *
value_json(const Tiles *t, const Node *n)
{
    Arena *a = &t->mem->scratch;
    const char *place = place_text(t->g->diag, n->place, a), *slash = strrchr(place, '/');
    const char *col = strrchr(place, ':');
    int length = col ? (int)(col - (slash ? slash + 1 : place)) : 0;
    return json_pack("{s:s,s:s,s:s,s:s?,s:I}", "value",
                     n->name ? n->name : op_info[n->op].name, "shape",
                     shape_text(t->mem, n->type, n->shape), "place",
                     arena_printf(a, "%.*s", length, slash ? slash + 1 : place), "block",
                     n->call ? n->call->name : NULL, "bytes", (json_int_t)node_bytes(n));
}

// How often each forward value is written for the backward pass, and how often it is
// made again.
static json_t *
values_json(const Tiles *t)
{
    const Graph *g = t->g;
    int *again = arena_array(&t->mem->scratch, int, g->n_nodes + 1);
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        bool computed = !(op_info[n->op].flags & OPF_MOVE);
        if (n->part == PART_RECOMPUTE && n->origin && computed &&
            n->origin->id < g->n_nodes && g->nodes[n->origin->id] == n->origin)
            again[n->origin->id]++;
    }
    json_t *list = json_array();
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        if (n->part != PART_FORWARD || (!n->kept && !again[i]))
            continue;
        json_t *v = value_json(t, n);
        json_object_set_new(v, "kept", json_integer(n->kept));
        json_object_set_new(v, "made_again", json_integer(again[i]));
        json_array_append_new(list, v);
    }
    return list;
}

static json_t *
parameters_json(const Graph *g)
{
    json_int_t elements = 0, tables = 0;
    json_t *unused = json_array();
    for (int i = 0; i < g->n_params; i++) {
        const Param *p = &g->params[i];
        elements += shape_size(p->shape);
        tables += p->table ? shape_size(p->shape) : 0;
        if (p->unused)
            json_array_append_new(unused, json_string(p->name));
    }
    return json_pack("{s:i,s:I,s:I,s:o}", "count", g->n_params, "elements", elements,
                     "table_elements", tables, "unused", unused);
}

// Tables that are multiplied with their rows of a weight once a step.
static json_t *
projected_json(const Tiles *t)
{
    const Graph *g = t->g;
    json_t *list = json_array();
    for (int i = 0; i < t->projections.n; i++) {
        const Projection *p = &t->projections.v[i];
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "table", g->params[p->table].name,
                            "weight", g->params[p->weight].name, "rows",
                            (json_int_t)p->rows, "width", (json_int_t)p->depth, "becomes",
                            (json_int_t)p->width, "bytes",
                            (json_int_t)(p->rows * p->width * 4)));
    }
    return list;
}

json_t *
report_json(Tiles *t, const ReportOptions *o)
{
    double flops = 0, recomputed = 0;
    for (int i = 0; i < t->regions.n; i++) {
        flops += t->regions.v[i]->flops;
        recomputed += t->regions.v[i]->recomputed_flops;
    }
    json_t *report = json_pack(
        "{s:s,s:s,s:s,s:s,s:O,s:o,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:I,s:f,s:o}", "name",
        o->name, "model", o->model_path, "compiler", o->compiler, "checkpoint",
        t->g->checkpoint, "configuration", o->config, "parameters", parameters_json(t->g),
        "flops", flops, "recomputed_flops", recomputed, "kept_bytes_per_sample",
        (json_int_t)t->kept_bytes, "input_bytes_per_sample", (json_int_t)t->input_bytes,
        "scratch_bytes_per_thread", (json_int_t)t->scratch_bytes,
        "accumulator_bytes_per_lane", (json_int_t)t->acc_floats * 4, "packed_bytes",
        (json_int_t)t->packed_floats * 4, "plan", plan_json(t, o), "regions",
        regions_json(t), "values", values_json(t), "batch_hint",
        (json_int_t)t->g->batch_hint, "step_flops", tiles_step_flops(t), "projected",
        projected_json(t));
    if (!report)
        die("the report of %s could not be made", o->name);
    return report;
}

// ---- text ---------------------------------------------------------------------------

static json_int_t
integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *
string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

static void
add_plan(Arena *a, Text *t, const json_t *report)
{
    static const char *const rows[][2] = {
        {"parameters, packed weights", "parameter_bytes"},
        {"gradients, accumulators", "gradient_bytes"},
        {"row stores", "row_store_bytes"},
        {"inputs", "input_bytes"},
        {"kept values, scratch", "activation_bytes"},
        {"peak", "planned_peak_bytes"},
    };
    const json_t *p = json_object_get(report, "plan");
    text_add(a, t,
             "\nbytes of a step, batch %" PRId64 ", chunk %" PRId64 ", %" PRId64
             " lanes, one thread\n",
             (int64_t)integer(p, "batch"), (int64_t)integer(p, "chunk"),
             (int64_t)integer(p, "lanes"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        text_add(a, t, "  %-28s %14" PRId64 "\n", rows[i][0],
                 (int64_t)integer(p, rows[i][1]));
}

static void
add_regions(Arena *a, Text *t, const json_t *report)
{
    size_t i;
    json_t *r;
    text_add(a, t, "\nregions, one sample\n  %-36s %12s %12s %10s %10s\n", "", "FLOPs",
             "recomputed", "kept", "scratch");
    json_array_foreach(json_object_get(report, "regions"), i, r)
        text_add(a, t, "  %-36s %12.0f %12.0f %10" PRId64 " %10" PRId64 "\n",
                 string(r, "name"), json_number_value(json_object_get(r, "flops")),
                 json_number_value(json_object_get(r, "recomputed_flops")),
                 (int64_t)integer(r, "kept_bytes"), (int64_t)integer(r, "scratch_bytes"));
    text_add(a, t, "  %-36s %12.0f %12.0f %10" PRId64 "\n", "together",
             json_number_value(json_object_get(report, "flops")),
             json_number_value(json_object_get(report, "recomputed_flops")),
             (int64_t)integer(report, "kept_bytes_per_sample"));
}

// Values that differ in nothing but the member they belong to share a line.
static void
add_values(Arena *a, Text *t, const json_t *report)
{
    NameMap lines = {.arena = a};
    Array(const char *) order = {0};
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(report, "values"), i, v)
    {
        const char *line = arena_printf(
            a, "%d %d  %-16s %-20s %9" PRId64 "  %-12s %s", (int)integer(v, "kept"),
            (int)integer(v, "made_again"), string(v, "value"), string(v, "shape"),
            (int64_t)integer(v, "bytes"), string(v, "block"), string(v, "place"));
        int n = name_map_get(&lines, line);
        if (n < 0)
            array_push(a, &order, line);
        name_map_put(&lines, line, n < 0 ? 1 : n + 1);
    }
    text_add(a, t,
             "\nvalues that the backward pass needs: how many, kept, made again, bytes "
             "of one\n");
    for (int k = 0; k < order.n; k++)
        text_add(a, t, "  %4d x %s\n", name_map_get(&lines, order.v[k]), order.v[k]);
}

static void
add_projected(Arena *a, Text *t, const json_t *report)
{
    size_t i;
    json_t *p;
    const json_t *list = json_object_get(report, "projected");
    text_add(a, t,
             "\ntables projected once a step, for batches of %" PRId64
             ": %zu, %.0f FLOPs a step\n",
             (int64_t)integer(report, "batch_hint"), json_array_size(list),
             json_number_value(json_object_get(report, "step_flops")));
    json_array_foreach(list, i, p)
        text_add(a, t, "  %-44s %9" PRId64 " rows, %4" PRId64 " to %4" PRId64 "  by %s\n",
                 string(p, "table"), (int64_t)integer(p, "rows"),
                 (int64_t)integer(p, "width"), (int64_t)integer(p, "becomes"),
                 string(p, "weight"));
}

const char *
report_text(Mem *mem, const json_t *report)
{
    Arena *a = &mem->perm;
    Text t = {0};
    size_t i;
    const json_t *p = json_object_get(report, "parameters");
    json_t *name;
    text_add(a, &t, "%s from %s, checkpoint %s, by pcvrc %s\n", string(report, "name"),
             string(report, "model"), string(report, "checkpoint"),
             string(report, "compiler"));
    text_add(a, &t,
             "%" PRId64 " parameters, %" PRId64 " numbers, %" PRId64
             " of them in tables\n",
             (int64_t)integer(p, "count"), (int64_t)integer(p, "elements"),
             (int64_t)integer(p, "table_elements"));
    json_array_foreach(json_object_get(p, "unused"), i, name)
        text_add(a, &t, "  reaches no logit: %s\n", json_string_value(name));
    add_plan(a, &t, report);
    add_regions(a, &t, report);
    add_projected(a, &t, report);
    add_values(a, &t, report);
    return t.v;
}
