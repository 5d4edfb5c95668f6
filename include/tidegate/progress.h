/* tidegate/progress.h - how long work reports how far it is. */
#ifndef TG_PROGRESS_H
#define TG_PROGRESS_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One report. Counts only grow while a stage lasts. */
typedef struct tg_progress {
    const char *stage;    /* "record", "sort", "apply": borrowed, static */
    uint64_t done, total; /* in items of the stage; total 0: not known */
    uint64_t bytes;       /* moved so far */
    double seconds;       /* since the stage began */
    double bytes_per_s;   /* over the last seconds */
    double eta_seconds;   /* < 0: not known */
    uint64_t durable; /* items that a power cut can no longer take; 0 where it means nothing */
    uint64_t queue_bytes;  /* held between source and disk; 0 where it means nothing */
    uint64_t memory_bytes; /* reserved of the budget now */
    uint64_t lost;         /* items dropped, skipped or failed so far */
} tg_progress;

/* Called from a thread of the library, at most a few times a second and once
 * at the end of a stage. Must not call back into the object that reports. */
typedef void (*tg_progress_fn)(void *user, const tg_progress *p);

#ifdef __cplusplus
}
#endif
#endif
