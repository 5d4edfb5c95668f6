/* zarr/node.h - the documents of one node, as a store holds them. */
#ifndef TG_ZARR_NODE_H
#define TG_ZARR_NODE_H

#include "zarr/path.h"
#include "zarr/zarr.h"

typedef struct tg_node_docs {
    int format;
    tg_node_kind kind;
    tg_buf doc;        /* zarr.json, .zarray or .zgroup */
    tg_buf attributes; /* .zattrs; empty if there is none */
} tg_node_docs;

void tg_node_docs_auto(tg_node_docs *d);

/* path: as tg_path_normalise() makes it. TG_NOT_FOUND: nothing there that is a node. */
TG_MUST_USE tg_status tg_node_load(tg_store *store, const char *path, tg_node_docs *out,
                                   const tg_cancel *cancel, tg_error *err);
/* The same, but only what kind of node it is; *found false: none. */
TG_MUST_USE tg_status tg_node_probe(tg_store *store, const char *path, bool *found,
                                    tg_node_kind *kind, const tg_cancel *cancel, tg_error *err);
/* Checked path of a node that may be made at `path`; and groups at all its ancestors that have
 * none, root first. TG_INVALID below an array. */
TG_MUST_USE tg_status tg_make_ancestors(tg_store *store, const char *path, int zarr_format,
                                        const tg_cancel *cancel, tg_error *err);
/* Write the documents of a node, the one that makes it a node last. is_new: TG_EXISTS if
 * another came first. */
TG_MUST_USE tg_status tg_node_store(tg_store *store, const char *path, const char *name,
                                    const char *doc, const char *attrs_doc, bool is_new,
                                    const tg_cancel *cancel, tg_error *err);
/* Remove every key below a path (not the path's own siblings). */
TG_MUST_USE tg_status tg_node_erase(tg_store *store, const char *path, const tg_cancel *cancel,
                                    tg_error *err);
/* Is there a key below the prefix, which ends in '/'? Folders that are left empty hold none. */
TG_MUST_USE tg_status tg_node_has_keys(tg_store *store, const char *prefix, bool *has,
                                       const tg_cancel *cancel, tg_error *err);

/* --- Consolidated metadata: a cache of what lies below ------------------- */

/* Names right below path, from the nearest ancestor that holds consolidated metadata.
 * TG_NOT_FOUND: none does. Calls fn with each name, some perhaps more than once. */
TG_MUST_USE tg_status tg_consolidated_children(tg_store *store, const char *path,
                                               tg_status (*fn)(void *user, const char *name,
                                                               size_t len, tg_error *err),
                                               void *user, const tg_cancel *cancel,
                                               tg_error *err);
/* What was consolidated at and above path is out of date: take it away. */
TG_MUST_USE tg_status tg_consolidated_drop(tg_store *store, const char *path,
                                           const tg_cancel *cancel, tg_error *err);

#endif
