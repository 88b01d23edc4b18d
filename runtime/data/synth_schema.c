// synth_schema.c - the columns of synthetic data sets: the official ones, capped.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "synth.h"

static const char official[] =
    "{\"format\": \"raw_parquet\",\n"
    " \"user_int\": "
    "[[1,6,1],[3,1725,1],[4,957,1],[15,1167,26],[48,101,1],[49,3,1],[50,4,1],"
    "[51,144,1],[52,177,1],[53,548,1],[54,2848,1],[55,40,1],[56,1423,1],[57,241,1],[58,3,"
    "1],"
    "[59,17,1],[60,3,2],[62,11,6],[63,49,19],[64,51,26],[65,425,111],[66,1403,150],[80,"
    "13,6],"
    "[82,24,1],[86,241,1],[89,10,10],[90,10,10],[91,10,10],[92,3,1],[93,38,1],[94,7,1],"
    "[95,4,1],[96,4,1],[97,4,1],[98,4,1],[99,4,1],[100,4,1],[101,4,1],[102,4,1],[103,4,1]"
    ","
    "[104,4,1],[105,4,1],[106,4,1],[107,4,1],[108,8,1],[109,8,1]],\n"
    " \"item_int\": [[5,309,1],[6,912,1],[7,2443,1],[8,2131,1],[9,42,1],[10,300,1],"
    "[11,21528,20],[12,2443,1],[13,9,1],[16,23700,1],[81,3,1],[83,32,1],[84,234,1],"
    "[85,1084,1]],\n"
    " \"user_dense\": "
    "[[61,256],[62,6],[63,19],[64,26],[65,111],[66,150],[87,320],[89,10],"
    "[90,10],[91,10]],\n"
    " \"seq\": {\n"
    "  \"seq_a\": {\"prefix\": \"domain_a_seq\", \"ts_fid\": 39, \"features\": "
    "[[38,745286],"
    "[39,0],[40,19],[41,11],[42,1005],[43,3342],[44,12735],[45,7612],[46,18]]},\n"
    "  \"seq_b\": {\"prefix\": \"domain_b_seq\", \"ts_fid\": 67, \"features\": "
    "[[67,0],[68,28],"
    "[69,64710562],[70,726],[71,2669],[72,10203],[73,6761],[74,476333],[75,31],[76,"
    "132080],"
    "[77,166],[78,4229],[79,11387],[88,199678]]},\n"
    "  \"seq_c\": {\"prefix\": \"domain_c_seq\", \"ts_fid\": 27, \"features\": "
    "[[27,0],[28,73],"
    "[29,5764358],[30,846],[31,6805],[32,7],[33,5],[34,1031305],[35,2896],[36,977479],"
    "[37,9433],[47,86335515]]},\n"
    "  \"seq_d\": {\"prefix\": \"domain_d_seq\", \"ts_fid\": 26, \"features\": "
    "[[17,5],[18,966],"
    "[19,3300],[20,10785],[21,4929],[22,404398],[23,606041],[24,531],[25,15],[26,0]]}}}"
    "\n";

// Widths of the small set.
enum { SMALL_LIST = 3, SMALL_DENSE = 8, SMALL_SIDES = 3 };

static void
narrow(SchemaGroup *g, int64_t dim)
{
    g->width = 0;
    for (int i = 0; i < g->n; i++) {
        SchemaFeature *f = &g->features[i];
        f->dim = f->dim < dim ? f->dim : dim;
        f->offset = g->width;
        g->width += f->dim;
    }
}

// Pair features have a weight for each id, so that their dense lists stay as long as
// the ids.
static void
narrow_dense(Schema *s)
{
    narrow(&s->user_dense, SMALL_DENSE);
    s->user_dense.width = 0;
    for (int i = 0; i < s->user_dense.n; i++) {
        SchemaFeature *f = &s->user_dense.features[i];
        for (int k = 0; k < s->user_int.n; k++)
            if (s->user_int.features[k].fid == f->fid)
                f->dim = s->user_int.features[k].dim;
        f->offset = s->user_dense.width;
        s->user_dense.width += f->dim;
    }
}

// Keeps the time feature and the first few sides.
static void
narrow_domain(SchemaDomain *d)
{
    int n = 0;
    d->n_sides = d->n_sides < SMALL_SIDES ? d->n_sides : SMALL_SIDES;
    for (int i = 0; i < d->n_features; i++)
        if (d->features[i].offset < d->n_sides)
            d->features[n++] = d->features[i];
    d->n_features = n;
}

Schema *
synth_schema(const SynthOptions *o, DataError *e)
{
    Schema *s = schema_parse(official, sizeof official - 1, "official schema", e);
    if (!s)
        return NULL;
    int64_t cap = o->vocab_cap ? o->vocab_cap : o->official ? 1000 : 100;
    schema_cap_vocab(s, cap > 50 ? cap : 50);
    for (int i = 0; i < s->n_domains && !o->official; i++)
        narrow_domain(&s->domains[i]);
    if (!o->official) {
        narrow(&s->user_int, SMALL_LIST);
        narrow(&s->item_int, SMALL_LIST);
        narrow_dense(s);
    }
    return s;
}
