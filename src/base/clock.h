/* base/clock.h - the two clocks. */
#ifndef TG_BASE_CLOCK_H
#define TG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds that only go forward: for durations and deadlines. */
static inline int64_t tg_clock_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds since 1970-01-01 UTC: for what people read. May jump. */
static inline int64_t tg_clock_utc_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
