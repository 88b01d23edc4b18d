// parquet_shim.cc - reads and writes Parquet for the C side, over the libparquet of a
// pyarrow wheel.
//
// Everything is behind one table of functions. Arrow's own allocator is not used: with
// the system memory pool sanitizers see every block. Arrow's libraries are found beside
// this one, or in the unpacked wheel.

#include "parquet_shim.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

struct pcvr_parquet_file {
    std::string path;
    std::shared_ptr<parquet::FileMetaData> metadata;
};

struct pcvr_parquet_writer {
    std::shared_ptr<arrow::Schema> schema;
    std::shared_ptr<arrow::io::FileOutputStream> file;
    std::unique_ptr<parquet::arrow::FileWriter> writer;
};

namespace {

int
fail(char *err, size_t err_size, const std::string &text)
{
    if (err && err_size) {
        snprintf(err, err_size, "%s", text.c_str());
        for (char *c = err; *c; c++)
            if (static_cast<unsigned char>(*c) < 0x20)
                *c = ' ';
    }
    return -1;
}

// Runs a body that returns an arrow::Status; everything it throws becomes a text.
template <typename Body>
int
guarded(char *err, size_t err_size, Body body)
{
    try {
        arrow::Status s = body();
        return s.ok() ? 0 : fail(err, err_size, s.ToString());
    } catch (const std::bad_alloc &) {
        return fail(err, err_size, "out of memory");
    } catch (const std::exception &e) {
        return fail(err, err_size, e.what());
    } catch (...) {
        return fail(err, err_size, "unknown failure");
    }
}

parquet::ReaderProperties
reader_properties()
{
    return parquet::ReaderProperties(arrow::system_memory_pool());
}

// A reader of its own for each call: readers are not shared by threads, metadata is.
arrow::Result<std::unique_ptr<parquet::arrow::FileReader>>
make_reader(const pcvr_parquet_file *f)
{
    ARROW_ASSIGN_OR_RAISE(
        auto in, arrow::io::ReadableFile::Open(f->path, arrow::system_memory_pool()));
    auto raw = parquet::ParquetFileReader::Open(in, reader_properties(), f->metadata);
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    return parquet::arrow::FileReader::Make(arrow::system_memory_pool(), std::move(raw),
                                            properties);
}

int
shim_open(const char *path, pcvr_parquet_file **out, char *err, size_t err_size)
{
    *out = nullptr;
    return guarded(err, err_size, [&]() -> arrow::Status {
        ARROW_ASSIGN_OR_RAISE(
            auto in, arrow::io::ReadableFile::Open(path, arrow::system_memory_pool()));
        auto raw = parquet::ParquetFileReader::Open(in, reader_properties());
        *out = new pcvr_parquet_file{path, raw->metadata()};
        return arrow::Status::OK();
    });
}

void
shim_close(pcvr_parquet_file *f)
{
    delete f;
}

int32_t
shim_n_groups(const pcvr_parquet_file *f)
{
    return f->metadata->num_row_groups();
}

int64_t
shim_group_rows(const pcvr_parquet_file *f, int32_t group)
{
    int64_t rows = -1;
    guarded(nullptr, 0, [&]() -> arrow::Status {
        rows = f->metadata->RowGroup(group)->num_rows();
        return arrow::Status::OK();
    });
    return rows;
}

int
shim_schema(const pcvr_parquet_file *f, ArrowSchema *out, char *err, size_t err_size)
{
    return guarded(err, err_size, [&]() -> arrow::Status {
        ARROW_ASSIGN_OR_RAISE(auto reader, make_reader(f));
        std::shared_ptr<arrow::Schema> schema;
        ARROW_RETURN_NOT_OK(reader->GetSchema(&schema));
        return arrow::ExportSchema(*schema, out);
    });
}

void
collect_leaves(const parquet::arrow::SchemaField &field, std::vector<int> *leaves)
{
    if (field.column_index >= 0)
        leaves->push_back(field.column_index);
    for (const auto &child : field.children)
        collect_leaves(child, leaves);
}

// The table of these columns, in the order asked for; a column may be asked for twice.
arrow::Result<std::shared_ptr<arrow::Table>>
read_columns(parquet::arrow::FileReader *reader, int32_t group, const int32_t *columns,
             int32_t n)
{
    const auto &fields = reader->manifest().schema_fields;
    std::vector<int> top(columns, columns + n), leaves;
    std::sort(top.begin(), top.end());
    top.erase(std::unique(top.begin(), top.end()), top.end());
    for (int c : top) {
        if (c < 0 || c >= static_cast<int>(fields.size()))
            return arrow::Status::Invalid("no column ", c);
        collect_leaves(fields[static_cast<size_t>(c)], &leaves);
    }
    ARROW_ASSIGN_OR_RAISE(auto table, reader->ReadRowGroup(group, leaves));
    if (table->num_columns() != static_cast<int>(top.size()))
        return arrow::Status::Invalid("the file's columns do not match its schema");
    std::vector<int> order;
    for (int32_t i = 0; i < n; i++)
        order.push_back(static_cast<int>(
            std::lower_bound(top.begin(), top.end(), columns[i]) - top.begin()));
    return table->SelectColumns(order);
}

// Record batches of a table that stay alive with the reader.
class TableReader : public arrow::RecordBatchReader {
  public:
    explicit TableReader(std::shared_ptr<arrow::Table> table)
        : table_(std::move(table)), batches_(*table_)
    {
    }
    std::shared_ptr<arrow::Schema>
    schema() const override
    {
        return table_->schema();
    }
    arrow::Status
    ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override
    {
        return batches_.ReadNext(out);
    }

  private:
    std::shared_ptr<arrow::Table> table_;
    arrow::TableBatchReader batches_;
};

int
shim_read(const pcvr_parquet_file *f, int32_t group, const int32_t *columns,
          int32_t n_columns, ArrowArrayStream *out, char *err, size_t err_size)
{
    return guarded(err, err_size, [&]() -> arrow::Status {
        if (group < 0 || group >= f->metadata->num_row_groups())
            return arrow::Status::Invalid("no row group ", group);
        ARROW_ASSIGN_OR_RAISE(auto reader, make_reader(f));
        ARROW_ASSIGN_OR_RAISE(auto table,
                              read_columns(reader.get(), group, columns, n_columns));
        return arrow::ExportRecordBatchReader(std::make_shared<TableReader>(table), out);
    });
}

int
shim_create(const char *path, ArrowSchema *schema, pcvr_parquet_writer **out, char *err,
            size_t err_size)
{
    *out = nullptr;
    return guarded(err, err_size, [&]() -> arrow::Status {
        auto w = std::make_unique<pcvr_parquet_writer>();
        ARROW_ASSIGN_OR_RAISE(w->schema, arrow::ImportSchema(schema));
        ARROW_ASSIGN_OR_RAISE(w->file, arrow::io::FileOutputStream::Open(path));
        auto properties = parquet::WriterProperties::Builder()
                              .memory_pool(arrow::system_memory_pool())
                              ->compression(parquet::Compression::SNAPPY)
                              ->max_row_group_length(INT64_C(1) << 40)
                              ->build();
        ARROW_ASSIGN_OR_RAISE(
            w->writer, parquet::arrow::FileWriter::Open(
                           *w->schema, arrow::system_memory_pool(), w->file, properties));
        *out = w.release();
        return arrow::Status::OK();
    });
}

int
shim_write(pcvr_parquet_writer *w, ArrowArray *batch, char *err, size_t err_size)
{
    return guarded(err, err_size, [&]() -> arrow::Status {
        ARROW_ASSIGN_OR_RAISE(auto record, arrow::ImportRecordBatch(batch, w->schema));
        ARROW_RETURN_NOT_OK(record->ValidateFull());
        ARROW_ASSIGN_OR_RAISE(auto table,
                              arrow::Table::FromRecordBatches(w->schema, {record}));
        return w->writer->WriteTable(*table, std::max<int64_t>(1, record->num_rows()));
    });
}

int
shim_finish(pcvr_parquet_writer *w, char *err, size_t err_size)
{
    int rc = guarded(err, err_size, [&]() -> arrow::Status {
        if (err) {
            ARROW_RETURN_NOT_OK(w->writer->Close());
            return w->file->Close();
        }
        return w->file->Close();
    });
    guarded(nullptr, 0, [&]() -> arrow::Status {
        delete w;
        return arrow::Status::OK();
    });
    return rc;
}

const pcvr_parquet functions = {
    PCVR_PARQUET_ABI, shim_open, shim_close,  shim_n_groups, shim_group_rows,
    shim_schema,      shim_read, shim_create, shim_write,    shim_finish,
};

// The C interface of Arrow takes its structures from the default pool whatever pool a
// caller names. The first use decides which one that is; the environment is left as it
// was.
void
choose_default_pool()
{
    static const char name[] = "ARROW_DEFAULT_MEMORY_POOL";
    if (std::getenv(name))
        return;
    setenv(name, "system", 1);
    arrow::default_memory_pool();
    unsetenv(name);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const pcvr_parquet *
pcvr_parquet_functions(void)
{
    choose_default_pool();
    return &functions;
}
