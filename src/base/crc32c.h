/* base/crc32c.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4), by SSE4.2 or ARMv8
 * instructions where the processor has them, chosen at run time, else by tables. */
#ifndef TG_BASE_CRC32C_H
#define TG_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Sum of n bytes; crc is 0 at first, then the result of the call before. */
uint32_t tg_crc32c(uint32_t crc, const void *data, size_t n);
/* Copy n bytes and sum them in the same pass. dst and src do not overlap. */
uint32_t tg_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n);
/* The sum of A followed by B from the sums of both. */
uint32_t tg_crc32c_combine(uint32_t a, uint32_t b, uint64_t b_bytes);
/* Which form runs: "sse4.2", "armv8", "portable". */
const char *tg_crc32c_form(void);
/* Force the portable form, for tests. */
void tg_crc32c_use_portable(int on);

#endif
