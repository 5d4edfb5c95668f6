/* base/crc32c.h - CRC-32C: the public functions of tidegate/checksum.h, which this layer
 * implements, and what only the library needs. */
#ifndef TG_BASE_CRC32C_H
#define TG_BASE_CRC32C_H

#include "tidegate/checksum.h"

#include <stddef.h>
#include <stdint.h>

/* The sum of A followed by B from the sums of both. */
uint32_t tg_crc32c_combine(uint32_t a, uint32_t b, uint64_t b_bytes);
/* Force the portable form, for tests. */
void tg_crc32c_use_portable(int on);

#endif
