/* lib/version.c - what the library says of itself. */
#include "tidegate/version.h"

#include "codec/codecs.h"

#include <pthread.h>
#include <stdio.h>

const char *tg_version(void)
{
    return TG_VERSION_STRING;
}

uint32_t tg_abi_version(void)
{
    return 0;
}

static char libraries[256];

static void name_libraries(void)
{
    (void)snprintf(libraries, sizeof libraries, "zstd %s\nblosc %s\nlz4 %s\nlibdeflate %s\n",
                   tg_zstd_version(), tg_blosc_version(), tg_lz4_version(),
                   tg_deflate_version());
}

const char *tg_libraries(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, name_libraries);
    return libraries;
}
