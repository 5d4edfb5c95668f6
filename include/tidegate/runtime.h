/* tidegate/runtime.h - the threads and the memory that jobs may use. */
#ifndef TG_RUNTIME_H
#define TG_RUNTIME_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One pool of threads, one memory budget, one log callback. A program makes
 * one and hands it to the jobs (record, copy, apply, annotate); nothing below
 * the jobs ever sees it. Everything whose size grows with the data is reserved
 * from the budget before work starts; work that can never fit is refused with
 * TG_OVER_BUDGET and both numbers.
 *
 * Threads: may be handed to several jobs at once, from any thread. */
typedef struct tg_runtime tg_runtime;

/* For things that are not failures: a fallback, a retry, a slow path. One line, no newline.
 * Called from any thread, with no lock held. */
typedef void (*tg_log_fn)(void *user, const char *line);

typedef struct tg_runtime_options {
    size_t size;           /* sizeof(tg_runtime_options) */
    uint64_t memory_bytes; /* the budget; 0: 256 MiB */
    uint32_t threads;      /* of the pool; 0: one per processor this process may use */
    tg_log_fn log;         /* NULL: silence */
    void *log_user;
} tg_runtime_options;

#define TG_DEFAULT_MEMORY_BYTES ((uint64_t)256 << 20)

TG_API TG_MUST_USE tg_status tg_runtime_new(const tg_runtime_options *options, tg_runtime **out,
                                            tg_error *err);
/* No job may be running. rt may be NULL. */
TG_API void tg_runtime_free(tg_runtime *rt);

TG_API uint64_t tg_runtime_memory_bytes(const tg_runtime *rt); /* the budget */
TG_API uint64_t tg_runtime_memory_used(const tg_runtime *rt);  /* reserved now */
TG_API uint64_t
tg_runtime_memory_peak(const tg_runtime *rt); /* most that was reserved at once */
TG_API uint32_t tg_runtime_threads(const tg_runtime *rt);

#ifdef __cplusplus
}
#endif
#endif
