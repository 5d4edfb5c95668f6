/* tidegate/verify.h - read everything below a path and say what is wrong. */
#ifndef TG_VERIFY_H
#define TG_VERIFY_H

#include "tidegate/array.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_verify_result {
    size_t size;           /* sizeof(tg_verify_result), set by the caller */
    uint64_t ok;           /* stored chunks (also within shards) whose checksum was right, or
                              frames, where only the frame table has checksums */
    uint64_t bad;          /* damaged: checksum, index, length, metadata */
    uint64_t unverifiable; /* decoded, but nothing in them could show a flipped bit */
    uint64_t bytes;
} tg_verify_result;

/* Called for each bad one, from one thread at a time. chunk: "shard 3, chunk 17" or "". */
typedef void (*tg_verify_fn)(void *user, const char *key, const char *what,
                             const tg_error *why);

/* Verify every node at and below `path` of the store: metadata parses, every stored unit
 * decodes, every checksum and shard index is right, and no shape says more than the frame
 * table. Frames whose raw crc the frame table holds are compared with it. Needs
 * tg_array_worst_bytes() per thread of the budget: TG_OVER_BUDGET otherwise. A bad unit is no
 * failure of the call. */
TG_API TG_MUST_USE tg_status tg_verify(tg_runtime *rt, tg_store *store, const char *path,
                                       tg_verify_fn bad, void *user, tg_progress_fn progress,
                                       void *progress_user, tg_verify_result *result,
                                       const tg_cancel *cancel, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
