// fuzz_parquet.c - any bytes as a Parquet file: batches, or one line of error.
//
// Seeds are the files of tests/golden/data/edge, whose schema this is.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char schema_text[] =
    "{\"format\": \"raw_parquet\", \"user_int\": [[1, 9, 1], [15, 9, 3]],"
    " \"item_int\": [[5, 9, 1]], \"user_dense\": [[61, 2]],"
    " \"seq\": {\"seq_a\": {\"prefix\": \"domain_a_seq\", \"ts_fid\": 39,"
    " \"features\": [[38, 9], [39, 0]]}}}";

static void
check(int ok)
{
    if (!ok)
        __builtin_trap();
}

// Reads everything; ids must lie inside their vocabularies whatever the file says.
static void
read_all(Data *d)
{
    DataStream *s;
    DataError e = {{0}};
    const DataBatch *b;
    int rc;
    DataStreamOptions o = {
        .batch_size = 4, .end_group = data_n_groups(d), .steps = 64, .ready = 1};
    if (data_stream_open(d, &o, &s, &e)) {
        check(e.text[0] != '\0');
        return;
    }
    while ((rc = data_stream_next(s, &b, &e)) == 1)
        for (int64_t i = 0; i < b->tensors.size; i++) {
            for (int k = 0; k < 4; k++)
                check(b->tensors.user_ints[i * 4 + k] >= 0 &&
                      b->tensors.user_ints[i * 4 + k] < 9);
            check(b->tensors.domains[0].lengths[i] >= 0 &&
                  b->tensors.domains[0].lengths[i] <= 3);
            check(b->tensors.label[i] == 0 || b->tensors.label[i] == 1);
        }
    check(rc == 0 || e.text[0]);
    check(!strchr(e.text, '\n'));
    data_stream_close(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    DataError e = {{0}};
    Data *d;
    char path[64];
    int fd = memfd_create("fuzz", 0);
    if (fd < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    Schema *s = schema_parse(schema_text, sizeof schema_text - 1, "schema", &e);
    check(s && !schema_set_lens(s, "seq_a:3", &e));
    check(write(fd, data, size) == (ssize_t)size);
    if (data_open(path, s, NULL, &d, &e) == 0) {
        read_all(d);
        data_close(d);
    } else {
        check(e.text[0] && !strchr(e.text, '\n'));
    }
    schema_free(s);
    close(fd);
    return 0;
}
