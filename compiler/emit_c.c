// emit_c.c - the C text of a module: constants, one function a region, the module's functions and data.

#include "emit.h"

#include <string.h>

#include "../runtime/pcvr.h"
#include "schema.h"

static void
add_text(Emit *e, Text *out, const char *s)
{
    print_lines(&e->mem->scratch, out, s, 0);
}

#define ADD(...) add_text(e, out, arena_printf(&e->mem->scratch, __VA_ARGS__))

// ---- head --------------------------------------------------------------------------------------

static const char *
checkpoint_text(const Tiles *t)
{
    return t->g->checkpoint ? t->g->checkpoint : "none";
}

static void
emit_head(Emit *e, Text *out)
{
    Arena *a = &e->mem->scratch;
    const EmitOptions *o = e->o;
    const Tiles *t = e->t;
    const char *path = o->model_path ? o->model_path : o->name, *slash = strrchr(path, '/');
    ADD("// %s.c - %s, compiled by pcvrc %s.\n", text_comment(a, o->name),
        text_comment(a, slash ? slash + 1 : path), text_comment(a, o->compiler));
    ADD("//\n// configuration: %s\n", text_comment(a, o->config));
    ADD("// checkpoint: %s\n", text_comment(a, checkpoint_text(t)));
    ADD("// batch hint: %lld\n//\n", (long long)t->g->batch_hint);
    ADD("// A sample's inputs, kept values and temporaries are records of floats, 64-bit integers and\n"
        "// bytes at fixed places: in, ini, inb the inputs; k, ki, kb kept; g, gi, gb temporaries of\n"
        "// the sample; t, ti, tb of the thread. p: parameters, w: packed weights, a: accumulators.\n\n");
    ADD("#include \"pcvr.h\"\n#include \"pcvr_kernels.h\"\n#include \"pcvr_tiles.h\"\n\n");
    ADD("enum {\n    INPUT_BYTES = %lld,\n    KEPT_BYTES = %lld,\n};\n\n", (long long)t->input_bytes,
        (long long)t->kept_bytes);
}

enum { CONST_WIDTH = 240 }; // columns of a line of constants: nobody reads them one by one

static void
emit_const_pool(Emit *e, Text *out, DType type, const char *decl)
{
    Arena *a = &e->mem->scratch;
    Text s = {0};
    int64_t n = 0;
    int start = 0; // of the current line
    for (int i = 0; i < e->t->const_bufs.n; i++) {
        const Buf *b = e->t->const_bufs.v[i];
        const Const *c = e->t->consts.v[i];
        if (b->type != type || b->first < 0 || b->shared)
            continue;
        for (int64_t k = 0; k < c->n; k++, n++) {
            bool full = s.n - start > CONST_WIDTH;
            text_add(a, &s, "%s", full ? ",\n    " : n == 0 ? "" : ", ");
            start = full ? s.n : start;
            if (type == DT_F32)
                text_add(a, &s, "%s", c_float_text(a, c->f ? c->f[k] : (double)c->i[k]));
            else if (c->i && c->i[k] == INT64_MIN)
                text_add(a, &s, "INT64_MIN");
            else
                text_add(a, &s, "%lld", (long long)(c->i ? c->i[k] : (int64_t)c->f[k]));
        }
    }
    if (n > 0)
        text_add(a, out, "%s[%lld] = {\n    %s};\n\n", decl, (long long)n, s.v);
}

// ---- regions -----------------------------------------------------------------------------------

static void
emit_bases(Emit *e, Text *out, Timeline line)
{
    static const char *const in_mut[] = {
        "    float *const in = (float *)(void *)(x->inputs + s * INPUT_BYTES);\n",
        "    int64_t *const ini = (int64_t *)(void *)(x->inputs + s * INPUT_BYTES);\n",
        "    uint8_t *const inb = x->inputs + s * INPUT_BYTES;\n",
    };
    static const char *const decl[] = {
        "    float *const t = (float *)(void *)(%s);\n",
        "    int64_t *const ti = (int64_t *)(void *)(%s);\n",
        "    uint8_t *const tb = %s;\n",
        "    float *const k = (float *)(void *)kept_of(x, s);\n",
        "    int64_t *const ki = (int64_t *)(void *)kept_of(x, s);\n",
        "    uint8_t *const kb = kept_of(x, s);\n",
        "    float *const g = (float *)(void *)(%s);\n",
        "    int64_t *const gi = (int64_t *)(void *)(%s);\n",
        "    uint8_t *const gb = %s;\n",
        "    const float *const in = (const float *)(const void *)(x->inputs + s * INPUT_BYTES);\n",
        "    const int64_t *const ini = (const int64_t *)(const void *)(x->inputs + s * "
        "INPUT_BYTES);\n",
        "    const uint8_t *const inb = x->inputs + s * INPUT_BYTES;\n",
        "    const float *const *const p = x->params;\n",
        "    const float *const w = x->packed;\n",
        "    float *const a = x->acc;\n",
        "    const float *const dlogits = x->dlogits + (x->first + s) * ACTIONS;\n",
        "    float *const logits = x->logits + (x->first + s) * ACTIONS;\n",
        "    float *const embedding =\n"
        "        x->embeddings ? x->embeddings + (x->first + s) * EMBEDDING : NULL;\n",
        "    const pcvr_batch *const b = x->batch;\n",
        "    const int64_t n = x->first + s;\n",
    };
    for (int k = 0; k <= BASE_SAMPLE; k++) {
        if (!(e->bases & 1u << k))
            continue;
        bool input = k >= BASE_IN && k <= BASE_INB;
        const char *text = line == TL_GATHER && input ? in_mut[k - BASE_IN] : decl[k];
        const char *record = line == TL_FORWARD ? "FORWARD_RECORD" : "BACKWARD_RECORD";
        const char *at = "x->scratch";
        if (k >= BASE_G && k <= BASE_GB)
            at = e->batched ? "scratch_of(x)"
                            : arena_printf(&e->mem->scratch, "scratch_of(x) + slot * %s", record);
        else if (line != TL_GATHER)
            at = arena_printf(&e->mem->scratch, "scratch_of(x) + GROUP * %s", record);
        const char *hole = strstr(text, "%s");
        if (hole)
            text = arena_printf(&e->mem->scratch, "%.*s%s%s", (int)(hole - text), text, at, hole + 2);
        add_text(e, out, text);
    }
}

static const char *
phase_name(Emit *e, const Region *r, int phase)
{
    return arena_printf(&e->mem->scratch, "%s_%d", r->name, phase + 1);
}

// The loops of a strip around its statements, as one piece; or one statement. Returns how many.
static int
emit_strip(Emit *e, Stmt **stmt, int n)
{
    Arena *a = &e->mem->scratch;
    const Strip *strip = stmt[0]->strip;
    if (!strip) {
        emit_stmt(e, stmt[0]);
        return 1;
    }
    Pieces outside = e->pieces;
    e->pieces = (Pieces){0};
    e->strip = strip;
    int count = 0;
    for (; count < n && stmt[count]->strip == strip; count++)
        emit_stmt(e, stmt[count]);
    Text text = {0};
    int indent = 4;
    if (strip->outer > 1) {
        text_add(a, &text, "%*sfor (int o0 = 0; o0 < %lld; o0++) {\n", indent, "",
                 (long long)strip->outer);
        indent += 4;
    }
    text_add(a, &text, "%*sfor (int r0 = 0; r0 < %lld; r0 += %lld) {\n", indent, "",
             (long long)strip->rows, (long long)strip->step);
    print_pieces(e, e->pieces.v, e->pieces.n, indent + 4, &text);
    for (; indent >= 4; indent -= 4)
        text_add(a, &text, "%*s}\n", indent, "");
    e->pieces = outside;
    e->strip = NULL;
    array_push(a, &e->pieces, (Piece){.text = text.v, .ready = true});
    return count;
}

// One phase: a function of a sample, or of `count` samples from s on.
static void
emit_phase(Emit *e, Text *out, const Region *r, int first, int n)
{
    Text body = {0};
    Stmt **stmt = r->stmts.v + first;
    e->line = r->line;
    e->bases = 0;
    e->pieces.n = 0;
    e->batched = stmt[0]->batched;
    for (int i = 0; i < n;)
        i += emit_strip(e, stmt + i, n - i);
    print_pieces(e, e->pieces.v, e->pieces.n, 4, &body);
    ADD("static void\n%s(const pcvr_ctx *x, int64_t s, int %s)\n{\n",
        phase_name(e, r, stmt[0]->phase), e->batched ? "count" : "slot");
    emit_bases(e, out, r->line);
    if (e->bases)
        ADD("\n");
    text_add(&e->mem->scratch, out, "%s", body.v ? body.v : "");
    ADD("    (void)x, (void)s, (void)%s;\n}\n\n", e->batched ? "count" : "slot");
}

// All phases of a region for the samples s .. s + count of the chunk, which are one group.
static void
emit_group(Emit *e, Text *out, const Region *r)
{
    ADD("static void\n%s(const pcvr_ctx *x, int64_t s, int count)\n{\n", r->name);
    for (int i = 0; i < r->stmts.n; i++) {
        const Stmt *s = r->stmts.v[i];
        if (i > 0 && s->phase == r->stmts.v[i - 1]->phase)
            continue;
        const char *name = phase_name(e, r, s->phase);
        if (s->batched)
            ADD("    %s(x, s, count);\n", name);
        else
            ADD("    for (int i = 0; i < count; i++)\n        %s(x, s + i, i);\n", name);
    }
    ADD("    (void)x, (void)s, (void)count;\n}\n\n");
}

static void
emit_region(Emit *e, Text *out, const Region *r)
{
    if (r->call && r->call->name)
        ADD("// %s: %s\n", r->line == TL_FORWARD ? "forward pass of" : "backward pass of",
            text_comment(&e->mem->scratch, r->call->name));
    for (int i = 0; i < r->stmts.n;) {
        int n = 1;
        while (i + n < r->stmts.n && r->stmts.v[i + n]->phase == r->stmts.v[i]->phase)
            n++;
        emit_phase(e, out, r, i, n);
        i += n;
    }
    if (r->line != TL_GATHER)
        emit_group(e, out, r);
}

static void
emit_helpers(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    ADD("enum { ACTIONS = %lld, EMBEDDING = %lld };\n\n", (long long)view_size(&t->logits),
        (long long)(t->embedding.buf ? view_size(&t->embedding) : 0));
    ADD("// Scratch of a thread: records of the GROUP samples that pass a phase together, then what\n"
        "// one sample needs within a phase. Where nothing goes backward the kept records of the\n"
        "// UNKEPT_GROUP samples are there too.\nenum {\n    GROUP = %lld,\n    UNKEPT_GROUP = %lld,\n"
        "    FORWARD_RECORD = %lld,\n    BACKWARD_RECORD = %lld,\n};\n\n", (long long)t->group,
        (long long)t->unkept_group, (long long)t->chunk_bytes[TL_FORWARD],
        (long long)t->chunk_bytes[TL_BACKWARD]);
    ADD("static inline unsigned char *\nkept_of(const pcvr_ctx *x, int64_t s)\n{\n"
        "    return x->kept ? x->kept + s * KEPT_BYTES : x->scratch + s %% UNKEPT_GROUP * KEPT_BYTES;\n}\n\n"
        "static inline unsigned char *\nscratch_of(const pcvr_ctx *x)\n{\n"
        "    return x->kept ? x->scratch : x->scratch + UNKEPT_GROUP * KEPT_BYTES;\n}\n\n");
}

// ---- functions of the module -------------------------------------------------------------------

static void
emit_prepare(Emit *e, Text *out)
{
    e->pieces.n = 0;
    e->bases = 0;
    for (int i = 0; i < e->t->packs.n; i++) {
        const Pack *p = &e->t->packs.v[i];
        const View *v = &p->from;
        const int64_t K = v->dim[v->rank - 2], N = v->dim[v->rank - 1];
        Stmt none = {0};
        const int64_t count = view_size(v) > 0 ? view_size(v) / (K * N) : 0;
        for (int64_t m = 0; m < count; m++) {
            int64_t first = v->first, at = m;
            for (int k = v->rank - 3; k >= 0; at /= v->dim[k--])
                first += at % v->dim[k] * v->stride[k];
            put(e, "k_pack_share(x, %D, %D, x->params[%$] + %$, %D, w + %$);\n", N, K,
                (int64_t)v->buf->index, first, v->stride[v->rank - 1],
                p->buf->offset + m * K * N);
            put_end(e, &none);
        }
    }
    if (e->t->packs.n == 0)
        return;
    ADD("// Weights that products read transposed, as [K][N].\n"
        "static void\nprepare(const pcvr_ctx *x)\n{\n    float *const w = x->packed;\n\n");
    print_pieces(e, e->pieces.v, e->pieces.n, 4, out);
    ADD("}\n\n");
}

static void
emit_pass(Emit *e, Text *out, const char *name, Timeline line)
{
    ADD("static void\n%s(const pcvr_ctx *x)\n{\n", name);
    const char *group = line == TL_FORWARD ? "group" : "GROUP";
    if (line == TL_FORWARD)
        ADD("    const int group = x->kept ? GROUP : UNKEPT_GROUP;\n");
    ADD("    for (int64_t s = 0; s < x->count; s += %s) {\n"
        "        const int count = (int)(x->count - s < %s ? x->count - s : %s);\n", group, group, group);
    for (int i = 0; i < e->t->regions.n; i++)
        if (e->t->regions.v[i]->line == line)
            ADD("        run(x, s, count, %d, %s);\n", i, e->t->regions.v[i]->name);
    ADD("    }\n}\n\n");
}

// Inputs of a chunk; a model that reads nothing of a sample has none.
static void
emit_gather(Emit *e, Text *out)
{
    ADD("static int\ngather_inputs(const pcvr_ctx *x)\n{\n    (void)x;\n");
    for (int i = 0; i < e->t->regions.n; i++) {
        const Region *r = e->t->regions.v[i];
        if (r->line == TL_GATHER && r->stmts.n > 0)
            ADD("    for (int64_t s = 0; s < x->count; s++)\n        %s(x, s, 0);\n",
                phase_name(e, r, r->stmts.v[0]->phase));
    }
    ADD("    return PCVR_OK;\n}\n\n");
}

static void
emit_functions(Emit *e, Text *out)
{
    emit_prepare(e, out);
    emit_project(e, out);
    emit_gather(e, out);
    ADD("// One region of a group of samples, timed where the caller has a clock.\n"
        "static inline void\nrun(const pcvr_ctx *x, int64_t s, int count, int region,\n"
        "    void (*f)(const pcvr_ctx *, int64_t, int))\n{\n"
        "    const double start = x->clock ? k_now() : 0.0;\n    f(x, s, count);\n"
        "    if (x->clock)\n        x->clock[region] += k_now() - start;\n}\n\n");
    emit_pass(e, out, "forward", TL_FORWARD);
    emit_pass(e, out, "backward", TL_BACKWARD);
}

// ---- data of the module ------------------------------------------------------------------------

static void
emit_params(Emit *e, Text *out)
{
    static const char *const init[] = {"ZEROS", "ONES", "CONSTANT", "UNIFORM", "NORMAL",
                                       "XAVIER_NORMAL", "XAVIER_UNIFORM"};
    const Graph *g = e->t->g;
    ADD("static const pcvr_param params[] = {\n");
    for (int i = 0; i < g->n_params; i++) {
        const Param *p = &g->params[i];
        int flags = p->table * PCVR_PARAM_TABLE | p->padding * PCVR_PARAM_PADDING |
                    p->matrices * PCVR_PARAM_MATRICES | p->adamw * PCVR_PARAM_ADAMW |
                    p->frozen * PCVR_PARAM_FROZEN | p->unused * PCVR_PARAM_UNUSED;
        Text dims = {0};
        for (int k = 0; k < p->shape.rank; k++)
            text_add(&e->mem->scratch, &dims, "%s%lld", k ? ", " : "", (long long)p->shape.dim[k]);
        ADD("    {%s, %d, {%s}, %lld, %d, %lld, PCVR_INIT_%s, %.17g},\n",
            text_quoted(&e->mem->scratch, p->name), p->shape.rank, p->shape.rank ? dims.v : "0",
            (long long)shape_size(p->shape), flags, (long long)p->table_ids, init[p->init],
            p->init_value);
    }
    if (g->n_params == 0)
        ADD("    {0},\n");
    ADD("};\n\n");
}

static void
emit_uses(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    ADD("static const pcvr_use uses[] = {\n");
    for (int i = 0; i < t->uses.n; i++) {
        const Use *u = &t->uses.v[i];
        ADD("    {%d, %lld, %lld, %lld, %lld, %lld, %lld},\n", u->param, (long long)u->first,
            (long long)u->size, (long long)(u->buf->offset + u->at), (long long)u->rows,
            (long long)u->step, (long long)u->pitch);
    }
    ADD("%s};\n\n", t->uses.n ? "" : "    {0},\n");
    ADD("static const pcvr_store_info stores[] = {\n");
    for (int i = 0; i < t->stores.n; i++)
        ADD("    {%d, %lld, %d},\n", t->stores.v[i].param, (long long)t->stores.v[i].ids_per_sample,
            t->stores.v[i].projection);
    ADD("%s};\n\n", t->stores.n ? "" : "    {0},\n");
}

static void
emit_regions(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    ADD("static const pcvr_region regions[] = {\n");
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        ADD("    {\"%s\", %.17g, %.17g, %lld, %lld},\n", r->name, r->flops, r->recomputed_flops,
            (long long)r->kept_bytes, (long long)r->scratch_bytes);
    }
    ADD("};\n\n");
}

const char *
kept_name(const Tiles *t, const Buf *b)
{
    Arena *a = &t->mem->perm;
    const Diag *d = t->g->diag;
    const Node *n = b->node;
    const char *what = n->name ? n->name : op_info[n->op].name;
    if (!d || n->place.file == 0 || n->place.file >= (uint32_t)d->sources.n)
        return what;
    const char *path = place_path(d, n->place), *slash = strrchr(path, '/');
    int line, col;
    place_line_col(d, n->place, &line, &col);
    return arena_printf(a, "%s (%s:%d)", what, slash ? slash + 1 : path, line);
}

static int
emit_kept(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    int count = 0;
    ADD("static const pcvr_kept kept[] = {\n");
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *b = t->bufs.v[i];
        static const int width[] = {4, 8, 1};
        if (b->space != SP_KEPT || b->first < 0)
            continue;
        count++;
        ADD("    {%d, %s, %lld},\n", b->region,
            text_quoted(&e->mem->scratch, kept_name(t, b)),
            (long long)b->size * width[b->type]);
    }
    ADD("%s};\n\n", count ? "" : "    {0},\n");
    return count;
}

// Which tensors of the batch gather_inputs reads.
static void
find_reads(const Tiles *t, uint32_t *reads, uint32_t *domain)
{
    const uint32_t field[] = {
        PCVR_READ_USER_INTS, PCVR_READ_USER_INT_MISSING, PCVR_READ_USER_DENSE,
        PCVR_READ_USER_DENSE_MISSING, PCVR_READ_ITEM_INTS, PCVR_READ_ITEM_INT_MISSING,
        PCVR_READ_ITEM_DENSE, PCVR_READ_ITEM_DENSE_MISSING, PCVR_READ_REQUEST_TIME,
        PCVR_READ_EVENTS, PCVR_READ_TIMES, PCVR_READ_LENGTHS,
    };
    *reads = PCVR_READ_NOTHING;
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *b = t->bufs.v[i];
        if (b->space != SP_RAW || b->first < 0)
            continue;
        const Input *in = &t->g->inputs[b->index];
        if (in->kind >= IN_EVENTS)
            domain[in->domain] |= field[in->kind];
        else
            *reads |= field[in->kind];
    }
}

// Writes the domains; returns the values of the layout.
static const char *
emit_layout(Emit *e, Text *out)
{
    const Schema *s = e->o->schema;
    int n = s ? s->n_domains : 0;
    uint32_t reads, *domain = arena_array(&e->mem->scratch, uint32_t, n + 1);
    for (int i = 0; i < n; i++)
        domain[i] = PCVR_READ_NOTHING;
    find_reads(e->t, &reads, domain);
    ADD("static const pcvr_domain_info domains[] = {\n");
    for (int i = 0; i < n; i++)
        ADD("    {%s, %d, %lld, %u},\n", text_quoted(&e->mem->scratch, s->domains[i].name),
            s->domains[i].n_sides, (long long)s->domains[i].max_len, domain[i]);
    ADD("%s};\n\n", n ? "" : "    {0},\n");
    return arena_printf(&e->mem->scratch, "%lld, %lld, %lld, %lld, %u, %d, domains",
        s ? (long long)s->user_int.width : 0LL, s ? (long long)s->user_dense.width : 0LL,
        s ? (long long)s->item_int.width : 0LL, s ? (long long)s->item_dense.width : 0LL, reads, n);
}

static void
emit_module(Emit *e, Text *out, int n_kept, const char *layout)
{
    const Tiles *t = e->t;
    Arena *a = &e->mem->scratch;
    const EmitOptions *o = e->o;
    const char *name = text_mangled(a, o->name);
    ADD("#if defined(PCVR_ISA_AVX512)\n#define MODULE pcvr_%s_avx512\n"
        "#elif defined(PCVR_ISA_AVX2)\n#define MODULE pcvr_%s_avx2\n"
        "#else\n#define MODULE pcvr_%s_scalar\n#endif\n\n", name, name, name);
    ADD("extern const pcvr_module MODULE;\nconst pcvr_module MODULE = {\n");
    ADD("    .abi = PCVR_ABI,\n    .name = %s,\n    .isa = PCVR_ISA_NAME,\n", text_quoted(a, o->name));
    ADD("    .checkpoint = %s,\n", text_quoted(a, checkpoint_text(t)));
    // long strings stay on one line: a break would stand inside them
    text_add(a, out, "    .config = %s,\n", text_quoted(a, o->config));
    ADD("    .compiler = %s,\n    .hash = 0x%016llxu,\n", text_quoted(a, o->compiler),
        (unsigned long long)o->hash);
    ADD("    .actions = ACTIONS,\n    .embedding = EMBEDDING,\n");
    ADD("    .n_params = %d,\n    .n_uses = %d,\n    .n_stores = %d,\n    .n_regions = %d,\n"
        "    .n_kept = %d,\n", t->g->n_params, t->uses.n, t->stores.n, t->regions.n, n_kept);
    ADD("    .params = params,\n    .uses = uses,\n    .stores = stores,\n    .regions = regions,\n"
        "    .kept = kept,\n    .layout = {%s},\n", layout);
    ADD("    .acc_floats = %lld,\n    .acc_fresh = %lld,\n    .packed_floats = %lld,\n    .input_bytes = INPUT_BYTES,\n"
        "    .kept_bytes = KEPT_BYTES,\n    .scratch_bytes = %lld,\n    .forward_scratch_bytes = %lld,\n"
        "    .default_chunk = %lld,\n",
        (long long)t->acc_floats, (long long)t->acc_fresh, (long long)t->packed_floats, (long long)t->scratch_bytes,
        (long long)t->forward_scratch_bytes,
        (long long)(o->default_chunk ? o->default_chunk : t->chunk));
    ADD("    .prepare = %s,\n    .gather_inputs = gather_inputs,\n    .forward = forward,\n"
        "    .forward_keep = forward,\n    .backward = backward,\n",
        t->packs.n ? "prepare" : "NULL");
    if (t->projections.n)
        ADD("    .step_flops = %.17g,\n    .n_projections = %d,\n    .projections = projections,\n"
            "    .project = project,\n    .project_back = project_back,\n", tiles_step_flops(t),
            t->projections.n);
    ADD("};\n");
}

// FNV-1a: equal code and data, equal hash.
static uint64_t
text_hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

const char *
module_symbol(Mem *mem, const char *name)
{
    return arena_printf(&mem->perm, "pcvr_%s", text_mangled(&mem->scratch, name));
}

char *
emit_c(Tiles *t, const EmitOptions *o)
{
    Emit emit = {.t = t, .mem = t->mem, .o = o}, *e = &emit;
    Text text = {0}, *out = &text;
    emit_head(e, out);
    emit_helpers(e, out);
    emit_const_pool(e, out, DT_F32, "static const float const_f");
    emit_const_pool(e, out, DT_I64, "static const int64_t const_i");
    emit_const_pool(e, out, DT_BOOL, "static const uint8_t const_b");
    emit_projections(e, out);
    for (int i = 0; i < t->regions.n; i++)
        emit_region(e, out, t->regions.v[i]);
    emit_functions(e, out);
    emit_params(e, out);
    emit_uses(e, out);
    emit_regions(e, out);
    int n_kept = emit_kept(e, out);
    const char *layout = emit_layout(e, out);
    EmitOptions hashed = *o;
    hashed.hash = text_hash(out->v);
    e->o = &hashed;
    emit_module(e, out, n_kept, layout);
    return arena_copy(&t->mem->perm, out->v, (size_t)out->n);
}
