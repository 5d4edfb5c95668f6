/* zarr/array.h - an open array, and its stored units: read and written chunk by
 * chunk, as encoded bytes. What the bytes mean is for array_read.c, array_write.c
 * (numbers) and array_strings.c.
 *
 * A unit is what a key holds: a chunk, or a shard of inner chunks. Chunk indexes
 * are of the whole array's grid of (inner) chunks. */
#ifndef TG_ZARR_ARRAY_H
#define TG_ZARR_ARRAY_H

#include "zarr/meta.h"
#include "zarr/path.h"

struct tg_array {
    tg_store *store;
    tg_array_meta *meta;
    char *path;
    size_t worst_bytes;
};

#define TG_KEY_BYTES (TG_PATH_BYTES + TG_CHUNK_KEY_BYTES)

/* The store's key of a unit. */
void tg_unit_key(const tg_array *a, const uint64_t *unit_index, char key[TG_KEY_BYTES]);
/* Of a unit (shard true) or a chunk of the array's grid; not clipped to the array. TG_INVALID:
 * beyond what 64 bits can address. */
TG_MUST_USE tg_status tg_chunk_box(const tg_array *a, bool unit, const uint64_t *index,
                                   tg_box *box, tg_error *err);
/* The box [start, start + count), inside the array's shape; TG_INVALID names the dimension. */
TG_MUST_USE tg_status tg_request_box(const tg_array *a, const uint64_t *start,
                                     const uint64_t *count, tg_box *box, tg_error *err);

/* Every unit that is stored, in no order; also those outside the shape. By listing the store.
 */
typedef tg_status (*tg_unit_fn)(void *user, const uint64_t *unit_index, tg_error *err);
TG_MUST_USE tg_status tg_unit_list(const tg_array *a, tg_unit_fn fn, void *user,
                                   const tg_cancel *cancel, tg_error *err);

/* --- Sizes: what tg_array_worst_bytes() adds up --------------------------- */

/* Text of one chunk of strings that a writer changes in place, and what a reader whose caller
 * sets no limit takes. */
#define TG_CHUNK_TEXT_BYTES ((size_t)16 << 20)
/* The most bytes of an encoded chunk that are read. A little above what we would write: other
 * writers leave bytes behind a chunk, or use frames of their own. SIZE_MAX: none. */
size_t tg_encoded_limit(const tg_array_meta *m);
/* Encoded bytes of a shard are gathered in ranges of up to this many at a time. */
size_t tg_gather_bytes(const tg_array_meta *m);
/* a + b and a * b that stick at SIZE_MAX. */
size_t tg_add_bytes(size_t a, size_t b);
size_t tg_mul_bytes(size_t a, size_t b);
/* Room in which a shard is put together when it is written: for all of it if it is small or the
 * store takes values only whole; 0: it goes out chunk by chunk. */
size_t tg_shard_buffer_bytes(const tg_array_meta *m, uint32_t store_caps);
size_t tg_worst_bytes(const tg_array_meta *m, uint32_t store_caps);

/* --- Reading units -------------------------------------------------------- */

/* Buffers that one call keeps from unit to unit. {0} is empty. */
typedef struct tg_unit_buffers {
    tg_buf encoded;
    tg_buf index;
    tg_shard_entry *entries; /* of the shard read last */
    uint32_t *order;
} tg_unit_buffers;
void tg_unit_buffers_auto(tg_unit_buffers *b);

/* One chunk that was asked for; encoded.data NULL: not stored, all fill. */
typedef tg_status (*tg_chunk_fn)(void *user, const uint64_t *chunk_index, tg_bytes encoded,
                                 tg_error *err);
/* Visit the chunks of a unit that touch `request`, in C order. Strings: of at most text_limit
 * bytes each. Failures of fn are given the chunk's name. */
TG_MUST_USE tg_status tg_unit_read(tg_array *a, tg_unit_buffers *b, const uint64_t *unit_index,
                                   const tg_box *request, size_t text_limit, tg_chunk_fn fn,
                                   void *user, const tg_cancel *cancel, tg_error *err);
/* The index of a stored shard into b->entries. TG_NOT_FOUND: no such shard. */
TG_MUST_USE tg_status tg_unit_index(tg_array *a, tg_unit_buffers *b, const char *key,
                                    uint64_t *value_bytes, const tg_cancel *cancel,
                                    tg_error *err);
/* "chunk 'a/c/0': " or "shard 'a/c/0', chunk 3: " in front of a failure, and its key. */
tg_status tg_name_chunk(const tg_array *a, const char *key, uint64_t inner, tg_status st,
                        tg_error *err);

/* --- Writing units -------------------------------------------------------- */

/* Makes the new bytes of a chunk that touches what is written. `old`: the bytes it has, data
 * NULL if none, or if the chunk is covered and was not read. *out with data NULL: all fill,
 * not to be stored. *out is borrowed until the next call. */
typedef tg_status (*tg_make_fn)(void *user, const uint64_t *chunk_index, tg_bytes old,
                                tg_bytes *out, tg_error *err);
/* Write the part of a unit that `request` touches; chunks it does not touch keep their bytes. A
 * unit that is covered is not read. */
TG_MUST_USE tg_status tg_unit_write(tg_array *a, tg_unit_buffers *b, const uint64_t *unit_index,
                                    const tg_box *request, tg_make_fn make, void *user,
                                    const tg_cancel *cancel, tg_error *err);
/* Remove a unit that became all fill. TG_UNSUPPORTED: it is there, and the store cannot. */
TG_MUST_USE tg_status tg_unit_remove(tg_array *a, const char *key, const tg_cancel *cancel,
                                     tg_error *err);
/* Does `request` hold all items of `box` that lie inside the array? */
bool tg_covers(const tg_array *a, const tg_box *request, const tg_box *box);

#endif
