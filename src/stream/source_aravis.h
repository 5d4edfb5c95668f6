/* stream/source_aravis.h - shared by the two files that know Aravis. */
#ifndef TG_STREAM_SOURCE_ARAVIS_H
#define TG_STREAM_SOURCE_ARAVIS_H

#include "stream/camera_format.h"
#include "stream/source.h"
#include "stream/unpack.h"

#include <arv.h>

/* "camera 'X': doing: why". Frees why (may be NULL). */
tg_status aravis_fail(tg_error *err, tg_status code, const char *camera, const char *doing,
                      GError *why);
/* Set one feature from "KEY=VALUE". TG_INVALID, naming it: there is none, it cannot be written,
 * or it does not take the value (says which it does). TG_IO: the camera did not answer. */
TG_MUST_USE tg_status aravis_set_feature(ArvCamera *camera, const char *name, const char *text,
                                         tg_error *err);

#endif
