/* zarr/zarr.h - what jobs need of Zarr beyond tidegate/array.h: metadata that
 * is parsed and made, chunk keys, single chunks, shard indexes.
 *
 * Everything runs in the caller's thread. */
#ifndef TG_ZARR_ZARR_H
#define TG_ZARR_ZARR_H

#include "codec/codec.h"
#include "nd/nd.h"
#include "store/store.h"
#include "tidegate/array.h"

TG_DEFINE_AUTO_PTR(tg_array, tg_array_free)
TG_DEFINE_AUTO_PTR(tg_node, tg_node_free)

#define TG_METADATA_LIMIT ((size_t)64 << 20) /* bytes of one metadata document that we read */

/* The metadata of one array, checked. Owns what it points to. */
typedef struct tg_array_meta tg_array_meta;

TG_MUST_USE tg_status tg_array_meta_parse_v3(tg_array_meta **out, const char *text, size_t len,
                                             tg_error *err);
/* attributes may be NULL (no .zattrs). */
TG_MUST_USE tg_status tg_array_meta_parse_v2(tg_array_meta **out, const char *text, size_t len,
                                             const char *attributes, size_t attributes_len,
                                             tg_error *err);
/* From options, for an array not yet written. */
TG_MUST_USE tg_status tg_array_meta_new(tg_array_meta **out, const tg_array_options *options,
                                        tg_error *err);
void tg_array_meta_free(tg_array_meta *m);
TG_DEFINE_AUTO_PTR(tg_array_meta, tg_array_meta_free)

const tg_array_info *tg_array_meta_info(const tg_array_meta *m);
const tg_chain *tg_array_meta_chain(const tg_array_meta *m);     /* of the (inner) chunk */
const tg_json *tg_array_meta_attributes(const tg_array_meta *m); /* an object, never NULL */
/* The fill of a string array, terminated, and its length; NULL: not strings. */
const char *tg_array_meta_fill_text(const tg_array_meta *m, size_t *len);
/* With another shape (info()->ndim extents) and, if not NULL, other attributes: the document(s)
 * to store. Unknown members stay. v3: zarr.json in *doc, *attrs_doc NULL; v2: .zarray and
 * .zattrs (NULL if there are no attributes). The caller's, tg_free(). */
TG_MUST_USE tg_status tg_array_meta_write(const tg_array_meta *m, const uint64_t *shape,
                                          const tg_json *attributes, char **doc,
                                          char **attrs_doc, tg_error *err);
/* Can values and shards that are stored for the one array be read as the other's, under the
 * same keys? Grids, shapes and attributes are not looked at. TG_INVALID says what differs:
 * `there` is the one in the store, at path. */
TG_MUST_USE tg_status tg_array_meta_stored_alike(const tg_array_meta *there,
                                                 const tg_array_meta *ours, const char *path,
                                                 tg_error *err);
/* The node at `path`, if there is one, is replaced whole by what `make` writes at the path that
 * it is given: in a directory a reader finds all of the old one or all of the new one, whenever
 * it looks, and what fails changes nothing. Elsewhere the old one is removed first. */
typedef tg_status (*tg_node_maker)(void *user, const char *path, const tg_cancel *cancel,
                                   tg_error *err);
TG_MUST_USE tg_status tg_node_replace(tg_store *store, const char *path, tg_node_maker make,
                                      void *user, const tg_cancel *cancel, tg_error *err);
/* Documents of a group: v3 zarr.json; v2 .zgroup and .zattrs. */
TG_MUST_USE tg_status tg_group_documents(int zarr_format, const tg_json *attributes, char **doc,
                                         char **attrs_doc, tg_error *err);

/* Key of a stored unit (chunk, or shard if sharded) below the array's path: "c/0/1", "0.1". dst
 * holds at least TG_CHUNK_KEY_BYTES. */
#define TG_CHUNK_KEY_BYTES (TG_MAX_NDIM * 21 + 4)
void tg_chunk_key(const tg_array_meta *m, const uint64_t *unit_index, char *dst);
/* The reverse; false: not the key of a unit. The unit may lie outside the shape. */
bool tg_chunk_key_parse(const tg_array_meta *m, const char *key, uint64_t *unit_index);
/* path "" or "a/b" and a name joined: "a/b/zarr.json". TG_INVALID if it does not fit or breaks
 * P1-P5 of the key rules. */
TG_MUST_USE tg_status tg_path_join(char *dst, size_t cap, const char *path, const char *name,
                                   tg_error *err);

/* An array whose document is not written: its units can be, and nobody takes what is there for
 * an array until tg_array_publish(). Takes meta over, also on failure. */
TG_MUST_USE tg_status tg_array_unpublished(tg_store *store, const char *path,
                                           tg_array_meta *meta, tg_array **out, tg_error *err);
TG_MUST_USE tg_status tg_array_publish(tg_array *a, const tg_cancel *cancel, tg_error *err);
const tg_array_meta *tg_array_get_meta(const tg_array *a);
/* In memory only: for who writes items before tg_array_resize() publishes them. */
void tg_array_set_shape(tg_array *a, const uint64_t *shape);
tg_store *tg_array_get_store(const tg_array *a);

/* --- Single chunks, no memory of their own -------------------------------- */

/* Decode one (inner) chunk into items (native, C order, whole chunk shape). Missing: filled,
 * *missing true. scratch has tg_chunk_scratch_bytes(); ctx is the thread's. For sharded arrays
 * the index is read each time: use tg_shard_reader for many. */
size_t tg_chunk_scratch_bytes(const tg_array_meta *m);
TG_MUST_USE tg_status tg_chunk_read(tg_array *a, tg_chain_context *ctx,
                                    const uint64_t *chunk_index, uint8_t *scratch,
                                    uint8_t *items, bool *missing, const tg_cancel *cancel,
                                    tg_error *err);

/* --- Shards --------------------------------------------------------------- */

/* Bytes of the encoded index of a shard with n_chunks inner chunks (crc32c of the index
 * included if configured). */
size_t tg_shard_index_bytes(const tg_array_meta *m);
uint64_t tg_shard_chunks(const tg_array_meta *m); /* inner chunks per shard */
bool tg_shard_index_at_start(const tg_array_meta *m);
typedef struct tg_shard_entry {
    uint64_t offset, nbytes; /* both UINT64_MAX: no such chunk */
} tg_shard_entry;
/* Entries in C order of the inner chunks within the shard, to the encoded index and back. dst
 * has tg_shard_index_bytes(). Decoding verifies the checksum; with value_bytes (size of the
 * whole shard) also that entries lie inside and not over the index. */
TG_MUST_USE tg_status tg_shard_index_encode(const tg_array_meta *m,
                                            const tg_shard_entry *entries, uint8_t *dst,
                                            tg_error *err);
TG_MUST_USE tg_status tg_shard_index_decode(const tg_array_meta *m, tg_bytes index,
                                            uint64_t value_bytes, tg_shard_entry *entries,
                                            tg_error *err);
/* Read and decode the index of a stored shard: one range request. TG_NOT_FOUND: no such shard
 * (all fill). */
TG_MUST_USE tg_status tg_shard_index_read(tg_array *a, const uint64_t *shard_index,
                                          tg_shard_entry *entries, uint64_t *value_bytes,
                                          const tg_cancel *cancel, tg_error *err);

#endif
