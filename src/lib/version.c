/* lib/version.c - what the library says of itself. */
#include "tidegate/version.h"

const char *tg_version(void)
{
    return TG_VERSION_STRING;
}

uint32_t tg_abi_version(void)
{
    return 0;
}
