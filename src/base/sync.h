/* base/sync.h - mutex and condition variable over pthreads.
 *
 * pthreads and not <threads.h>: ThreadSanitizer of GCC 12 and Clang 14 crashes
 * on C11 threads. Lock errors are programming errors, so they abort.
 *
 * Debug builds count the locks that a thread holds by TG_LOCKED, and assert that it holds none
 * where it calls back, waits for memory or does I/O: other threads would wait for a disk. A
 * lock whose purpose is to put I/O in order (one writer of one archive) is held by
 * TG_LOCKED_FOR_IO, which is not counted. */
#ifndef TG_BASE_SYNC_H
#define TG_BASE_SYNC_H

#include "base/auto.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Locks now held by this thread through TG_LOCKED; stays 0 with NDEBUG. */
extern _Thread_local int tg_lock_depth;
#define TG_ASSERT_UNLOCKED() assert(tg_lock_depth == 0 && "TG_LOCKED is held here: base/sync.h")

typedef pthread_mutex_t tg_mutex;
typedef pthread_cond_t tg_cond;

static inline void tg_must(int rc)
{
    if (rc != 0)
        abort();
}

static inline void tg_mutex_init(tg_mutex *m)
{
    tg_must(pthread_mutex_init(m, NULL));
}
static inline void tg_mutex_destroy(tg_mutex *m)
{
    tg_must(pthread_mutex_destroy(m));
}
static inline void tg_mutex_lock(tg_mutex *m)
{
    tg_must(pthread_mutex_lock(m));
}
static inline void tg_mutex_unlock(tg_mutex *m)
{
    tg_must(pthread_mutex_unlock(m));
}
/* Timed waits count on the monotonic clock (base/clock.h). */
static inline void tg_cond_init(tg_cond *c)
{
    pthread_condattr_t a;
    tg_must(pthread_condattr_init(&a));
    tg_must(pthread_condattr_setclock(&a, CLOCK_MONOTONIC));
    tg_must(pthread_cond_init(c, &a));
    tg_must(pthread_condattr_destroy(&a));
}
static inline void tg_cond_destroy(tg_cond *c)
{
    tg_must(pthread_cond_destroy(c));
}
static inline void tg_cond_wait(tg_cond *c, tg_mutex *m)
{
    tg_must(pthread_cond_wait(c, m));
}
/* False when `until_ns` (tg_clock_ns()) has passed; true may also be a spurious wake. */
static inline bool tg_cond_wait_until(tg_cond *c, tg_mutex *m, int64_t until_ns)
{
    struct timespec t = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    int rc = pthread_cond_timedwait(c, m, &t);
    if (rc != 0 && rc != ETIMEDOUT)
        abort();
    return rc == 0;
}
static inline void tg_cond_signal(tg_cond *c)
{
    tg_must(pthread_cond_signal(c));
}
static inline void tg_cond_broadcast(tg_cond *c)
{
    tg_must(pthread_cond_broadcast(c));
}

/* Hold m until the enclosing scope ends. */
static inline tg_mutex *tg_lock_scope(tg_mutex *m)
{
    tg_mutex_lock(m);
#ifndef NDEBUG
    tg_lock_depth++;
#endif
    return m;
}
static inline void tg_unlock_auto(tg_mutex **m)
{
#ifndef NDEBUG
    tg_lock_depth--;
#endif
    tg_mutex_unlock(*m);
}

/* The same, not counted: for a lock that puts I/O in order. */
static inline tg_mutex *tg_lock_scope_for_io(tg_mutex *m)
{
    tg_mutex_lock(m);
    return m;
}
static inline void tg_unlock_for_io_auto(tg_mutex **m)
{
    tg_mutex_unlock(*m);
}

#define TG_CAT_(a, b) a##b
#define TG_CAT(a, b)  TG_CAT_(a, b)
#define TG_LOCKED(m)                                                                     \
    __attribute__((cleanup(tg_unlock_auto), unused)) tg_mutex *TG_CAT(lock_, __LINE__) = \
        tg_lock_scope(m)
#define TG_LOCKED_FOR_IO(m)                                                   \
    __attribute__((cleanup(tg_unlock_for_io_auto), unused)) tg_mutex *TG_CAT( \
        lock_, __LINE__) = tg_lock_scope_for_io(m)

#endif
