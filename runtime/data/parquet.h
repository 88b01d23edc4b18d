// parquet.h - finds and loads libpcvr_parquet.so.

#ifndef PCVR_DATA_PARQUET_H
#define PCVR_DATA_PARQUET_H

#include "data_error.h"
#include "parquet_shim.h"

// The library's functions; it stays loaded. `path` NULL: $PCVR_PARQUET, else
// libpcvr_parquet.so beside the program or one directory above it, else in build/. NULL
// and one line when it cannot be loaded.
const pcvr_parquet *parquet_load(const char *path, DataError *e);

#endif
