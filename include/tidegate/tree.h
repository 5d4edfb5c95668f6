/* tidegate/tree.h - work on whole hierarchies in parallel: copy. (verify.h: verify.) */
#ifndef TG_TREE_H
#define TG_TREE_H

#include "tidegate/array.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes different on the way. Zero-initialise: nothing. */
typedef struct tg_copy_options {
    size_t size; /* sizeof(tg_copy_options) */
    int format;  /* 2, 3; 0: as the source. OME-NGFF metadata becomes 0.4 or 0.5 with it */
    /* Of the arrays with so many dimensions; others keep theirs. n 0: as the source. */
    uint32_t chunk_ndim, shard_ndim;
    uint64_t chunk[TG_MAX_NDIM], shard[TG_MAX_NDIM];
    bool no_shards;
    const char *codec; /* as for tg_array_options, with a crc32c in v3; NULL: as the source */
    tg_dtype dtype;    /* of numeric arrays of two and more dimensions, and of a source that is
                          one array; TG_DT_NONE: as the source. What does not fit saturates */
    /* A source that is one array: only [start, start + count). region_ndim 0: all. */
    uint32_t region_ndim;
    uint64_t start[TG_MAX_NDIM], count[TG_MAX_NDIM];
    bool verify;    /* read every array back and compare, before it is published */
    bool overwrite; /* replace a node at the destination */
} tg_copy_options;

typedef struct tg_copy_result {
    size_t size; /* sizeof(tg_copy_result), set by the caller */
    uint64_t arrays, groups;
    uint64_t units;         /* stored at the destination by this call, or found empty */
    uint64_t units_encoded; /* of them those whose bytes were passed on as they were */
    uint64_t units_resumed; /* done by an earlier call */
    uint64_t bytes_in, bytes_out;
    uint64_t saturated; /* items that did not fit options.dtype */
} tg_copy_result;

/* Copy the node at src_path, with all below it, to dst_path of another store. Arrays whose
 * chunks, codecs and type stay as they are pass as encoded bytes; others are read a block at a
 * time, as large as the budget allows, so that each source chunk is decoded once or as few
 * times as can be. Attributes, fill values, dimension names and unknown metadata are kept.
 *
 * Nothing is claimed early: units come first, then the array's document, then groups from the
 * leaves to the root, whose document is the last; all but the root is durable by then.
 * A directory keeps a journal in "<root>.tidegate/" meanwhile: called again with the same
 * source and options, the copy goes on (it looks at no time stamps, and trusts that the
 * source's chunks did not change).
 *
 * TG_EXISTS: there is a node, or files, at the destination; or an unfinished copy of something
 * else. TG_INVALID, TG_UNSUPPORTED, TG_OVER_BUDGET: refused before any data was written.
 * TG_CANCELLED: can be called again. A chunk that cannot be read is an error that names its
 * key. result is filled also on failure. The destination store is not closed. */
TG_API TG_MUST_USE tg_status tg_copy(tg_runtime *rt, tg_store *src, const char *src_path,
                                     tg_store *dst, const char *dst_path,
                                     const tg_copy_options *options, tg_progress_fn progress,
                                     void *progress_user, tg_copy_result *result,
                                     const tg_cancel *cancel, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
