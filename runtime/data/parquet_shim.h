// parquet_shim.h - the plain C interface of libpcvr_parquet.so.
//
// Columns travel through the Arrow C data interface (its structures are repeated here,
// as its specification asks). No exception leaves the library; a function that fails
// returns -1 and writes one line to err, cut at err_size. Memory comes from malloc.

#ifndef PCVR_PARQUET_SHIM_H
#define PCVR_PARQUET_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_NULLABLE 2

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

#define PCVR_PARQUET_ABI 1u

typedef struct pcvr_parquet_file pcvr_parquet_file;
typedef struct pcvr_parquet_writer pcvr_parquet_writer;

typedef struct pcvr_parquet {
    uint32_t abi;
    // Reads a file's footer. The handle holds no descriptor and may be used by several
    // threads.
    int (*open)(const char *path, pcvr_parquet_file **out, char *err, size_t err_size);
    void (*close)(pcvr_parquet_file *);
    int32_t (*n_groups)(const pcvr_parquet_file *);
    int64_t (*group_rows)(const pcvr_parquet_file *, int32_t group);
    // The file's top-level columns as the children of one struct.
    int (*schema)(const pcvr_parquet_file *, struct ArrowSchema *out, char *err,
                  size_t err_size);
    // Decodes top-level columns of a row group; the stream's arrays have them in this
    // order.
    int (*read)(const pcvr_parquet_file *, int32_t group, const int32_t *columns,
                int32_t n_columns, struct ArrowArrayStream *out, char *err,
                size_t err_size);
    // A new file, overwritten if it exists; `schema` is consumed.
    int (*create)(const char *path, struct ArrowSchema *schema, pcvr_parquet_writer **out,
                  char *err, size_t err_size);
    // Writes one row group; `batch` is consumed.
    int (*write)(pcvr_parquet_writer *, struct ArrowArray *batch, char *err,
                 size_t err_size);
    // Ends the file and frees the writer, also when it fails. With err NULL the file is
    // only abandoned.
    int (*finish)(pcvr_parquet_writer *, char *err, size_t err_size);
} pcvr_parquet;

// The one symbol of the library.
typedef const pcvr_parquet *pcvr_parquet_functions_fn(void);
const pcvr_parquet *pcvr_parquet_functions(void);

#ifdef __cplusplus
}
#endif

#endif
