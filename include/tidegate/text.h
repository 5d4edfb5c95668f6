/* tidegate/text.h - words and numbers that people type, read strictly.
 *
 * For programs and bindings that offer the library's options under their own names, so that
 * "256MiB" means the same everywhere. Each takes the whole string or fails with TG_INVALID and
 * a message that says what would have been right. Independent of the locale. */
#ifndef TG_TEXT_H
#define TG_TEXT_H

#include "tidegate/error.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "4096", "64KiB", "1.5GiB" (KiB MiB GiB TiB). "256M" or "1GB" fails with a hint. */
TG_API TG_MUST_USE tg_status tg_parse_size(const char *s, uint64_t *bytes, tg_error *err);
/* "90s", "10m", "500ms", "2h", "1.5s" -> seconds > 0. A bare number fails with a hint. */
TG_API TG_MUST_USE tg_status tg_parse_duration(const char *s, double *seconds, tg_error *err);
/* Decimal digits only. */
TG_API TG_MUST_USE tg_status tg_parse_u64(const char *s, uint64_t *v, tg_error *err);
TG_API TG_MUST_USE tg_status tg_parse_i64(const char *s, int64_t *v, tg_error *err);
/* Any finite decimal number. */
TG_API TG_MUST_USE tg_status tg_parse_double(const char *s, double *v, tg_error *err);
/* Shortest text that reads back the same, at most 32 bytes with the NUL: 0.1, 1e-07, 3.0, NaN.
 */
TG_API void tg_format_double(char *dst, size_t cap, double v);
/* Is s[0..n) valid UTF-8 (no surrogates, no overlong forms)? */
TG_API bool tg_utf8_valid(const char *s, size_t n);

#ifdef __cplusplus
}
#endif
#endif
