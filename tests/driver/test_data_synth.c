// test_data_synth.c - synthetic data sets: readable, the same for the same seed,
// learnable.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "data.h"
#include "data_test.h"
#include "metric.h"
#include "synth.h"

static void
remove_set(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static SynthReport
write_set(const char *dir, const SynthOptions *o)
{
    SynthReport r;
    DataError e = {{0}};
    if (synth_write(dir, o, &r, &e))
        fail_msg("%s", e.text);
    return r;
}

// Reads the whole set; sums over everything, so that two sets can be compared. Counts
// labels.
static double
sum_set(const char *dir, int64_t *rows, int64_t *positives, const Schema **keep,
        Data **set)
{
    DataError e = {{0}};
    Data *d;
    DataStream *s;
    const DataBatch *b;
    int rc, n;
    double sum = 0;
    char *path = data_schema_path(dir);
    Schema *schema = schema_read(path, &e);
    DataOptions options = {.strict_ids = true};
    if (!schema || data_open(dir, schema, &options, &d, &e))
        fail_msg("%s", e.text);
    DataStreamOptions o = {.batch_size = 64, .end_group = data_n_groups(d), .threads = 2};
    if (data_stream_open(d, &o, &s, &e))
        fail_msg("%s", e.text);
    *rows = *positives = 0;
    while ((rc = data_stream_next(s, &b, &e)) == 1) {
        const pcvr_batch *t = &b->tensors;
        for (int64_t i = 0; i < t->size; i++) {
            *positives += t->label[i];
            sum += (double)(t->request_time[i] % 1000003 * (i + 1));
            for (int64_t k = 0; k < schema->user_int.width; k++)
                sum += (double)(t->user_ints[i * schema->user_int.width + k] * (k + 1));
            for (int64_t k = 0; k < schema->user_dense.width; k++)
                sum += (double)t->user_dense[i * schema->user_dense.width + k];
            for (int m = 0; m < t->n_domains; m++) {
                assert_true(t->domains[m].lengths[i] > 0);
                assert_non_null(b->user_ids[i]);
                int64_t len = schema->domains[m].max_len;
                int64_t last = t->domains[m].timestamps[i * len];
                assert_true(last > 0 && last < t->request_time[i]);
                sum += (double)(last % 10007 * (m + 1));
            }
        }
        *rows += t->size;
    }
    if (rc)
        fail_msg("%s", e.text);
    data_stream_oov(s, &n);
    assert_int_equal(n, 0);
    data_stream_close(s);
    schema_free(schema);
    free(path);
    if (keep) {
        *set = d;
        *keep = data_schema(d);
    } else {
        data_close(d);
    }
    return sum;
}

static void
test_small_set(void **state)
{
    (void)state;
    char dir[] = "/tmp/pcvr_synth_XXXXXX";
    SynthOptions o = {.rows = 3000, .seed = 3};
    int64_t rows, positives;
    assert_non_null(mkdtemp(dir));
    SynthReport r = write_set(dir, &o);
    assert_int_equal(r.rows, 3000);
    assert_int_equal(r.files, 4);
    assert_int_equal(r.groups, 4);
    assert_true(r.best_auc >= 0.80 && r.best_auc < 0.99);
    assert_true(r.best_logloss > 0.1 && r.best_logloss < 0.6);
    double first = sum_set(dir, &rows, &positives, NULL, NULL);
    assert_int_equal(rows, 3000);
    assert_int_equal(positives, r.positives);
    assert_true(positives > 600 && positives < 2400);

    DataError e = {{0}};
    assert_int_equal(synth_write(dir, &o, &r, &e), -1);
    assert_non_null(strstr(e.text, "holds Parquet files already"));
    remove_set(dir);
    write_set(dir, &o);
    assert_true(sum_set(dir, &rows, &positives, NULL, NULL) == first);
    remove_set(dir);
    o.seed = 4;
    write_set(dir, &o);
    assert_false(sum_set(dir, &rows, &positives, NULL, NULL) == first);
    remove_set(dir);
}

// A naive model, a smoothed mean label for each id of the fields and the most frequent
// event of seq_a, learns from one half and ranks the other far better than chance.
static void
test_learnable(void **state)
{
    (void)state;
    enum { TRAIN = 4000, TEST = 2000, FEATURES = 61 };
    char dir[] = "/tmp/pcvr_synth_XXXXXX";
    SynthOptions o = {.rows = TRAIN + TEST, .seed = 9};
    assert_non_null(mkdtemp(dir));
    write_set(dir, &o);
    int64_t rows, positives;
    const Schema *schema;
    Data *d;
    DataError e = {{0}};
    sum_set(dir, &rows, &positives, &schema, &d);
    DataStreamOptions so = {.batch_size = 100, .end_group = data_n_groups(d)};
    DataStream *s;
    const DataBatch *b;
    assert_int_equal(data_stream_open(d, &so, &s, &e), 0);
    static double sums[FEATURES][128], counts[FEATURES][128];
    static double labels[TEST], scores[TEST];
    int64_t n = 0, tested = 0;
    while (data_stream_next(s, &b, &e) == 1)
        for (int64_t i = 0; i < b->tensors.size; i++, n++) {
            int64_t ids[FEATURES], events[128] = {0};
            int used = 0;
            for (int k = 0; k < schema->user_int.n; k++)
                ids[used++] = b->tensors.user_ints[i * schema->user_int.width +
                                                   schema->user_int.features[k].offset];
            for (int k = 0; k < schema->item_int.n; k++)
                ids[used++] = b->tensors.item_ints[i * schema->item_int.width +
                                                   schema->item_int.features[k].offset];
            const SchemaDomain *a = &schema->domains[0];
            assert_int_equal(a->sides[2].fid, 41);
            for (int64_t k = 0; k < a->max_len; k++) {
                int64_t id =
                    b->tensors.domains[0].values[(i * a->n_sides + 2) * a->max_len + k];
                events[id ? (id - 1) % 4 : 127]++;
            }
            int64_t best = 0;
            for (int64_t k = 1; k < 4; k++)
                best = events[k] > events[best] ? k : best;
            ids[used++] = best + 1;
            assert_int_equal(used, FEATURES);
            double z = 0;
            for (int k = 0; k < used; k++) {
                double *sum = &sums[k][ids[k]], *count = &counts[k][ids[k]];
                double p = (*sum + 0.35 * 20) / (*count + 20);
                z += log(p / (1 - p));
                *sum += n < TRAIN ? (double)b->tensors.label[i] : 0;
                *count += n < TRAIN;
            }
            if (n >= TRAIN) {
                labels[tested] = (double)b->tensors.label[i];
                scores[tested++] = z;
            }
        }
    double auc;
    assert_int_equal(tested, TEST);
    assert_true(pcvr_auc(labels, scores, TEST, &auc));
    assert_true(auc > 0.78);
    data_stream_close(s);
    data_close(d);
    remove_set(dir);
}

static void
test_official_set(void **state)
{
    (void)state;
    char dir[] = "/tmp/pcvr_synth_XXXXXX";
    SynthOptions o = {.rows = 60, .files = 2, .official = true, .max_len = 40};
    int64_t rows, positives;
    const Schema *s;
    Data *d;
    assert_non_null(mkdtemp(dir));
    SynthReport r = write_set(dir, &o);
    assert_true(r.best_auc >= 0.80);
    sum_set(dir, &rows, &positives, &s, &d);
    assert_int_equal(rows, 60);
    assert_int_equal(s->user_int.n, 46);
    assert_int_equal(s->item_int.n, 14);
    assert_int_equal(s->user_dense.width, 918);
    assert_int_equal(s->n_domains, 4);
    assert_int_equal(s->domains[1].n_features, 14);
    for (int i = 0; i < s->user_int.n; i++)
        assert_true(s->user_int.features[i].vocab <= 1000);
    data_close(d);
    remove_set(dir);
}

static void
test_errors(void **state)
{
    (void)state;
    SynthReport r;
    SynthOptions o = {.rows = 10, .files = 20};
    DataError e = {{0}};
    assert_int_equal(synth_write("/tmp", &o, &r, &e), -1);
    assert_non_null(strstr(e.text, "no more files than rows"));
    e.text[0] = '\0';
    o.files = 1;
    assert_int_equal(synth_write("/proc/no/such", &o, &r, &e), -1);
    assert_non_null(strstr(e.text, "/proc/no"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_set),
        cmocka_unit_test(test_learnable),
        cmocka_unit_test(test_official_set),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
