/* zarr/path.h - the rules for paths of nodes. tg_path_join() is in zarr.h. */
#ifndef TG_ZARR_PATH_H
#define TG_ZARR_PATH_H

#include "base/error.h"

#include <stdbool.h>

#define TG_PATH_BYTES 1024 /* the longest key an object store takes */

/* "/a//b/" -> "a/b", with '\\' as '/'. TG_INVALID for "." and ".." and control characters. */
TG_MUST_USE tg_status tg_path_normalise(char *dst, size_t cap, const char *path, tg_error *err);
/* May this be the name of a node? Not "zarr.json", not "__x", not only periods. */
bool tg_node_name_ok(const char *name);
/* The same of each part of a path that tg_path_normalise() made. */
TG_MUST_USE tg_status tg_node_path_check(const char *path, tg_error *err);

#endif
