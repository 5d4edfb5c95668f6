/* stream/camera_format.h - the pixel formats of GenICam's PFNC that a frame can be made of. */
#ifndef TG_STREAM_CAMERA_FORMAT_H
#define TG_STREAM_CAMERA_FORMAT_H

#include "base/error.h"
#include "tidegate/stream.h"

typedef struct tg_camera_format {
    tg_pixel_format pixels;
    tg_dtype dtype;
    uint32_t bits; /* significant */
    char bayer[3]; /* "RG", "GR", "GB", "BG"; "": none */
} tg_camera_format;

/* "Mono8", "Mono12p", "BayerRG10Packed", ... TG_UNSUPPORTED names what it got and lists what is
 * known. */
TG_MUST_USE tg_status tg_camera_format_parse(const char *name, tg_camera_format *out,
                                             tg_error *err);

#endif
