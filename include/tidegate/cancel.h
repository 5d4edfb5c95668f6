/* tidegate/cancel.h - ask running work to stop, now or at a time. */
#ifndef TG_CANCEL_H
#define TG_CANCEL_H

#include "tidegate/error.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A flag and a deadline that long calls look at between their steps. It waits
 * for nothing and wakes nobody: a call that is handed a token returns
 * TG_CANCELLED (flag) or TG_TIMED_OUT (deadline) at its next look.
 *
 * Threads: every function from any thread; tg_cancel_request() also from a
 * signal handler. The token must outlive the calls that were handed it. */
typedef struct tg_cancel tg_cancel;

TG_API TG_MUST_USE tg_status tg_cancel_new(tg_cancel **out, tg_error *err);
TG_API void tg_cancel_free(tg_cancel *c); /* may be NULL */
TG_API void tg_cancel_request(tg_cancel *c);
/* Ends work `seconds` from now; a value <= 0 at once, INFINITY never. */
TG_API void tg_cancel_deadline(tg_cancel *c, double seconds);
/* c may be NULL: never cancelled. */
TG_API bool tg_cancel_requested(const tg_cancel *c);
TG_API TG_MUST_USE tg_status tg_cancel_check(const tg_cancel *c, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
