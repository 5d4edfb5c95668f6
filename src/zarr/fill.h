/* zarr/fill.h - one item as JSON and back: fill values of both formats, and the
 * text that `cat` prints. */
#ifndef TG_ZARR_FILL_H
#define TG_ZARR_FILL_H

#include "base/json.h"
#include "tidegate/dtype.h"

/* Read the fill value of one item into item (t.size native bytes). format 3 follows the spec
 * and takes only what was seen in the wild and has one meaning; format 2 also takes "0" for a
 * number and base64 for raw bytes. TG_CORRUPT says what was got and what the type wants. Not
 * for strings. */
TG_MUST_USE tg_status tg_fill_parse(const tg_json *v, tg_dtype t, int format, uint8_t *item,
                                    tg_error *err);
/* The reverse: a new root, bit-exact when it is read again. */
TG_MUST_USE tg_status tg_fill_json(tg_dtype t, int format, const void *item, tg_json **out,
                                   tg_error *err);

#endif
