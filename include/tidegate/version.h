/* tidegate/version.h - which library this is. */
#ifndef TG_VERSION_H
#define TG_VERSION_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0". */
TG_API const char *tg_version(void);
/* Grows when a binary built against an older header would misbehave. */
TG_API uint32_t tg_abi_version(void);
/* Name and version of each library that decodes or encodes, one line each:
 * "zstd 1.5.4\nblosc 1.21.3\n...". Static. */
TG_API const char *tg_libraries(void);

#ifdef __cplusplus
}
#endif
#endif
