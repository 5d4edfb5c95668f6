/* base/error.h - how library code reports a failure.
 *
 * The function that finds a failure describes it and returns in one line:
 *
 *     return tg_fail(err, TG_CORRUPT, "shard index: %zu bytes, want %zu", n, want);
 *
 * Callers pass the status up unchanged. The one that owns a name the reader
 * needs (a path, a key) may put it in front with tg_error_prefix(), and sets
 * the machine-readable key and offset with tg_error_at(). */
#ifndef TG_BASE_ERROR_H
#define TG_BASE_ERROR_H

#include "tidegate/error.h"

TG_PRINTF(3, 4)
tg_status tg_fail(tg_error *err, tg_status code, const char *fmt, ...);

/* As tg_fail(), with the code and the last words taken from errno. */
TG_PRINTF(2, 3)
tg_status tg_fail_errno(tg_error *err, const char *fmt, ...);

/* What compilers and analyzers cannot see from a call: a failure is never TG_OK, so what a call
 * that succeeded has set is set. */
static inline tg_status tg_failed(tg_status st)
{
    if (st == TG_OK)
        __builtin_unreachable();
    return st;
}
#define tg_fail(...)       tg_failed((tg_fail)(__VA_ARGS__))
#define tg_fail_errno(...) tg_failed((tg_fail_errno)(__VA_ARGS__))

TG_PRINTF(2, 3)
void tg_error_prefix(tg_error *err, const char *fmt, ...);

/* Say which file or key, and which byte, the failure is about. What is already
 * set stays, so the one nearest to the fault wins. Does nothing while err is
 * NULL or holds no failure. key may be NULL, offset TG_NO_OFFSET. */
void tg_error_at(tg_error *err, const char *key, uint64_t offset);

/* Return from the calling function if expr is not TG_OK. Only for functions
 * whose resources are all TG_AUTO (see base/auto.h): nothing else is undone. */
#define TG_TRY(expr)                \
    do {                            \
        tg_status tg_try_ = (expr); \
        if (tg_try_ != TG_OK)       \
            return tg_try_;         \
    } while (0)

#endif
