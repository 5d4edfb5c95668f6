/* tidegate/checksum.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4), by SSE4.2 or ARMv8
 * instructions where the processor has them, chosen at run time, else by tables.
 *
 * The column "crc32c" of a frame table is tg_crc32c(0, frame, its bytes). */
#ifndef TG_CHECKSUM_H
#define TG_CHECKSUM_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sum of n bytes; crc is 0 at first, then the result of the call before. */
TG_API uint32_t tg_crc32c(uint32_t crc, const void *data, size_t n);
/* Copy n bytes and sum them in the same pass. dst and src do not overlap. */
TG_API uint32_t tg_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n);
/* Which form runs: "sse4.2", "armv8", "portable". */
TG_API const char *tg_crc32c_form(void);

#ifdef __cplusplus
}
#endif
#endif
