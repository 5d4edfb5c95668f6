/* lib/version.c - what the library says of itself. */
#include "tidegate/version.h"

#include "codec/codec.h"

#include <pthread.h>

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
    (void)tg_codec_libraries(libraries, sizeof libraries);
}

const char *tg_libraries(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, name_libraries);
    return libraries;
}
