/* zarr/shard_out.h - a shard on its way to the store: encoded chunks one after the
 * other, and the index where it belongs.
 *
 * Small shards, and those of stores that take values only whole, are put together
 * in memory and put at once. Others go out through an object, chunk by chunk; their
 * index can then stand at the start only if all lengths were known before
 * (n_passes 2: the first pass only counts). */
#ifndef TG_ZARR_SHARD_OUT_H
#define TG_ZARR_SHARD_OUT_H

#include "zarr/array.h"

typedef struct tg_shard_out {
    tg_array *a;
    const char *key;
    tg_shard_entry *entries; /* of the shard that is made */
    uint64_t at;             /* bytes of chunks and index so far */
    uint64_t n_stored;       /* chunks that are not all fill */
    int n_passes, pass;
    tg_buf whole; /* put together here; empty: through object */
    tg_buf index;
    tg_object *object;
    bool begun;
} tg_shard_out;

void tg_shard_out_auto(tg_shard_out *o);

TG_MUST_USE tg_status tg_shard_out_init(tg_shard_out *o, tg_array *a, const char *key,
                                        tg_error *err);
/* Before the chunks of a pass; passes count from 0. */
TG_MUST_USE tg_status tg_shard_out_begin(tg_shard_out *o, int pass, const tg_cancel *cancel,
                                         tg_error *err);
/* The next chunk (i from 0 in C order, each once); data NULL: all fill. */
TG_MUST_USE tg_status tg_shard_out_add(tg_shard_out *o, uint64_t i, tg_bytes encoded,
                                       const tg_cancel *cancel, tg_error *err);
/* After the last pass: index, and the value at its key; a shard of nothing but fill is removed.
 */
TG_MUST_USE tg_status tg_shard_out_end(tg_shard_out *o, const tg_cancel *cancel, tg_error *err);

#endif
