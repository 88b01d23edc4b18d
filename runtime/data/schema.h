// schema.h - schema.json: the columns of a data set and the layout that follows from
// them.
//
// Shared by the reader and by the compiler; depends on jansson only.

#ifndef PCVR_DATA_SCHEMA_H
#define PCVR_DATA_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "data_error.h"

// Longest sequence kept for a domain that seq_max_lens does not list.
#define SCHEMA_DEFAULT_LEN 256

// A column. Integer features: ids 0..vocab-1 in `dim` positions from `offset` on in the
// group's row. Dense features: vocab is 0. Sequence features: dim is 1, offset the index
// among the domain's side features (-1 for the timestamp feature).
typedef struct SchemaFeature {
    int64_t fid, vocab, dim, offset;
} SchemaFeature;

// Features in file order; width is the sum of their dims (D of [B, D]).
typedef struct SchemaGroup {
    SchemaFeature *features;
    int n;
    int64_t width;
} SchemaGroup;

// A sequence domain. `features` are all of them in file order, `sides` those without
// ts_fid in the same order (F of [B, F, L]). max_len is L.
typedef struct SchemaDomain {
    char *name, *prefix;
    int64_t ts_fid;
    SchemaFeature *features, *sides;
    int n_features, n_sides;
    int64_t max_len;
} SchemaDomain;

// Domains are sorted by name (bytes of UTF-8).
typedef struct Schema {
    SchemaGroup user_int, item_int, user_dense, item_dense;
    SchemaDomain *domains;
    int n_domains;
} Schema;

// Reads and checks a file. NULL on failure, with the path and the place in the error's
// text.
Schema *schema_read(const char *path, DataError *e);

// The same from n bytes of text; `name` stands for the path in messages.
Schema *schema_parse(const char *text, size_t n, const char *name, DataError *e);

// Sets max_len of the domains listed in "name:len,name:len"; blanks are tolerated,
// unknown names ignored, the last of equal names counts, domains not listed get
// SCHEMA_DEFAULT_LEN. NULL is the empty list. 0, or -1 when the list cannot be read;
// nothing is changed then.
int schema_set_lens(Schema *s, const char *lens, DataError *e);
// The names in such a list that are no domain, "seq_x, seq_y"; NULL if there are none, or
// memory is short. The caller frees it.
char *schema_unknown_lens(const Schema *s, const char *lens);

// Caps every vocabulary: v becomes max(2, min(v, cap)); 0 stays 0, timestamps stay as
// they are.
void schema_cap_vocab(Schema *s, int64_t cap);

// A deep copy, or NULL when memory is short.
Schema *schema_copy(const Schema *s);

// schema.json in the reference's form, two spaces an indent, with a final newline; the
// caller frees it. NULL when memory is short. max_len is no part of it.
char *schema_to_json(const Schema *s);

void schema_free(Schema *s);

#endif
