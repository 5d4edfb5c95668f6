/* ims/digest.h - the checksums that an .imzML may give of its .ibd: MD5, SHA-1, SHA-256. For
 * finding damage, not for trust. */
#ifndef TG_IMS_DIGEST_H
#define TG_IMS_DIGEST_H

#include "ims/imzml.h"

typedef struct tg_digest {
    tg_ims_sum kind;
    bool fast; /* by instructions of this processor; a test may say no */
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} tg_digest;

void tg_digest_begin(tg_digest *d, tg_ims_sum kind); /* not TG_SUM_NONE */
void tg_digest_add(tg_digest *d, const uint8_t *data, size_t n);
/* Lower-case hex, at most 64 characters and a NUL. */
void tg_digest_end(tg_digest *d, char hex[65]);
const char *tg_digest_name(tg_ims_sum kind);

#endif
