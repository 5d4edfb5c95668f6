/* codec/libraries.c - the versions of the libraries that decode and encode. */
#include "codec/codecs.h"

#include <stdio.h>

const char *tg_codec_libraries(char *room, size_t cap)
{
    (void)snprintf(room, cap, "zstd %s\nlibdeflate %s\nblosc %s\nlz4 %s\n", tg_zstd_version(),
                   tg_deflate_version(), tg_blosc_version(), tg_lz4_version());
    return room;
}
