/* tidegate/array.h - Zarr groups and arrays, formats 2 and 3. */
#ifndef TG_ARRAY_H
#define TG_ARRAY_H

#include "tidegate/cancel.h"
#include "tidegate/dtype.h"
#include "tidegate/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Nodes --------------------------------------------------------------- */

typedef enum tg_node_kind { TG_NODE_GROUP, TG_NODE_ARRAY } tg_node_kind;

/* A node's documents as they were when it was opened. path: "" is the root, else "a/b" without
 * a leading or trailing slash. Threads: read-only after open, so any number may use it. */
typedef struct tg_node tg_node;

/* TG_NOT_FOUND if there is no metadata at the path: not a Zarr node. Where both formats are
 * present v3 wins. */
TG_API TG_MUST_USE tg_status tg_node_open(tg_store *store, const char *path, tg_node **out,
                                          const tg_cancel *cancel, tg_error *err);
TG_API void tg_node_free(tg_node *n); /* may be NULL */
TG_API tg_node_kind tg_node_kind_of(const tg_node *n);
TG_API int tg_node_format(const tg_node *n); /* 2 or 3 */
/* Attributes as one JSON object, and the whole metadata document (v2: .zarray or .zgroup);
 * borrowed. */
TG_API const char *tg_node_attributes(const tg_node *n);
TG_API const char *tg_node_metadata(const tg_node *n);
/* Names of the nodes right below, sorted; array of strings ended by NULL, freed with tg_free()
 * each and whole (tg_names_free()). By listing the store, or from consolidated metadata where
 * the store cannot list. */
TG_API TG_MUST_USE tg_status tg_node_children(tg_store *store, const char *path, char ***names,
                                              const tg_cancel *cancel, tg_error *err);
TG_API void tg_names_free(char **names);
/* Make a group, and groups at all ancestors that have none. attributes: JSON object or NULL.
 * TG_EXISTS if there is a node of any kind (ancestors that are groups stay as they are);
 * TG_INVALID below an array. */
TG_API TG_MUST_USE tg_status tg_group_create(tg_store *store, const char *path, int zarr_format,
                                             const char *attributes, const tg_cancel *cancel,
                                             tg_error *err);
/* Replace all attributes, or (merge) only the members given, top level; other members, their
 * order and unknown metadata stay. Atomic. */
TG_API TG_MUST_USE tg_status tg_attributes_set(tg_store *store, const char *path,
                                               const char *attributes, bool merge,
                                               const tg_cancel *cancel, tg_error *err);

/* Change some members and keep all others, in their order: member keys[i] becomes the JSON
 * value values[i], or is removed where that is NULL (TG_NOT_FOUND, and nothing changes, if
 * there is none). One read and one atomic write; it does not lock: of two at once one may be
 * lost. */
TG_API TG_MUST_USE tg_status tg_attributes_edit(tg_store *store, const char *path, size_t n,
                                                const char *const *keys,
                                                const char *const *values,
                                                const tg_cancel *cancel, tg_error *err);

/* Remove a node and all that lies below it, its documents first; nothing there is fine. */
TG_API TG_MUST_USE tg_status tg_node_remove(tg_store *store, const char *path,
                                            const tg_cancel *cancel, tg_error *err);

/* --- Arrays -------------------------------------------------------------- */

typedef struct tg_array tg_array;

/* What an array is. Extents are in items, slowest dimension first. */
typedef struct tg_array_info {
    size_t size; /* sizeof(tg_array_info), set by the caller */
    int format;  /* 2 or 3 */
    tg_dtype dtype;
    uint32_t ndim;
    uint64_t shape[TG_MAX_NDIM];
    uint64_t chunk[TG_MAX_NDIM]; /* the unit that is decoded: the inner chunk of a shard */
    uint64_t shard[TG_MAX_NDIM]; /* the unit that is stored; equal to chunk if not sharded */
    bool sharded;
    bool has_fill; /* v2 with fill_value null: false, and zeros are read */
    unsigned char
        fill[16]; /* native bytes of one item; a string's fill is "" or tg_array_fill_text() */
    const char *dimension_name[TG_MAX_NDIM]; /* borrowed from the array; NULL: none */
} tg_array_info;

typedef struct tg_array_options {
    size_t size; /* sizeof(tg_array_options) */
    int format;  /* 2 or 3; 0: 3 */
    tg_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    const uint64_t *chunk; /* NULL: the whole array is one chunk */
    const uint64_t
        *shard; /* NULL: one stored object a chunk; else a multiple of chunk. v3 only */
    bool index_at_start; /* of the shard; default end */
    const char *codec;   /* "none", "zstd:3", "blosc:lz4:5:shuffle", "gzip:6"; NULL: none */
    bool no_checksum;    /* default: crc32c behind the codec (v3) */
    const void *fill;    /* one native item; NULL: zero. For strings: a C string */
    char separator;      /* of chunk keys, '/' or '.'; 0: '/' */
    const char *const *dimension_names; /* ndim strings or NULLs; NULL: none. v3 only */
    const char *attributes;             /* JSON object; NULL: {} */
    bool overwrite; /* replace a node of this path; its chunks are removed */
} tg_array_options;

/* Chunks live below path; ancestors that are no nodes become groups. Nothing is written if an
 * option is refused. */
TG_API TG_MUST_USE tg_status tg_array_create(tg_store *store, const char *path,
                                             const tg_array_options *options, tg_array **out,
                                             const tg_cancel *cancel, tg_error *err);
/* The store must outlive the array. TG_NOT_FOUND: no node; TG_INVALID: a group. */
TG_API TG_MUST_USE tg_status tg_array_open(tg_store *store, const char *path, tg_array **out,
                                           const tg_cancel *cancel, tg_error *err);
TG_API void tg_array_free(tg_array *a); /* may be NULL */
TG_API TG_MUST_USE tg_status tg_array_get_info(const tg_array *a, tg_array_info *info,
                                               tg_error *err);
TG_API const char *tg_array_path(const tg_array *a);
/* The fill value of a string array, terminated, and (len may be NULL) its length; borrowed.
 * NULL: not strings. */
TG_API const char *tg_array_fill_text(const tg_array *a, size_t *len);
/* The most bytes that reading or writing through one chunk can take beyond the caller's buffer:
 * encoded and decoded chunk, shard index, contexts. What a job reserves per call in flight.
 * SIZE_MAX: cannot be processed. */
TG_API size_t tg_array_worst_bytes(const tg_array *a);

/* Items [start, start + count) into dst: native-endian, at byte_strides (NULL: C order, dense).
 * Missing chunks read as fill; a chunk that is there and cannot be read, decoded or verified is
 * an error that names its key. Threads: any number. Memory: at most tg_array_worst_bytes() at a
 * time. Not for strings. */
TG_API TG_MUST_USE tg_status tg_array_read(tg_array *a, const uint64_t *start,
                                           const uint64_t *count, void *dst,
                                           const int64_t *byte_strides, const tg_cancel *cancel,
                                           tg_error *err);
/* The reverse. Chunks (shards) that are covered whole are written without a read; others are
 * read, changed and written. Threads: calls may overlap as long as no two touch the same chunk
 * (shard); the array does not lock. Chunks that become all fill value are not stored (removed
 * if they were). */
TG_API TG_MUST_USE tg_status tg_array_write(tg_array *a, const uint64_t *start,
                                            const uint64_t *count, const void *src,
                                            const int64_t *byte_strides,
                                            const tg_cancel *cancel, tg_error *err);
/* Strings, 1-D arrays only: items [start, start + count) as *offsets (count + 1 byte offsets
 * into *text, UTF-8). Both are the caller's, tg_free(). limit: most bytes of text; more is
 * TG_OVER_BUDGET. */
TG_API TG_MUST_USE tg_status tg_array_read_strings(tg_array *a, uint64_t start, uint64_t count,
                                                   size_t limit, uint64_t **offsets,
                                                   char **text, const tg_cancel *cancel,
                                                   tg_error *err);
TG_API TG_MUST_USE tg_status tg_array_write_strings(tg_array *a, uint64_t start, uint64_t count,
                                                    const uint64_t *offsets, const char *text,
                                                    const tg_cancel *cancel, tg_error *err);
/* Change the shape. Growing is O(1). Shrinking removes stored units wholly outside first, then
 * writes the metadata. Threads: no other call on this array meanwhile. */
TG_API TG_MUST_USE tg_status tg_array_resize(tg_array *a, const uint64_t *shape,
                                             const tg_cancel *cancel, tg_error *err);
/* One item as Zarr fill-value JSON ("3", "-Infinity" with its quotes, [1.0,2.0], true): what
 * `cat` prints. */
TG_API void tg_item_text(tg_dtype t, const void *item, char *dst, size_t cap);
/* The reverse: t.size native bytes into item from what people type: fill-value JSON, and NaN,
 * Infinity, -Infinity and hexadecimal floats also without quotes. TG_INVALID says what was
 * wanted. Not for strings. */
TG_API TG_MUST_USE tg_status tg_item_parse(tg_dtype t, const char *text, void *item,
                                           tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
