/* stream/options.h - what of a recorder's options has to do with where pixels lie, as JSON. */
#ifndef TG_STREAM_OPTIONS_H
#define TG_STREAM_OPTIONS_H

#include "base/json.h"
#include "stream/recorder.h"

/* Resolved: chunk and shard sizes are those that were chosen. */
TG_MUST_USE tg_status tg_options_write_array(const tg_stream_array *a, const tg_layout *l,
                                             tg_json **out, tg_error *err);

/* Options read back. Text is borrowed from the document. */
typedef struct tg_read_options {
    tg_stream_array array;
    tg_stream_dim dims[TG_STREAM_DIMS];
    tg_stream_column columns[TG_FRAME_COLUMNS_MAX];
} tg_read_options;
/* r must stay where it is: array points into it. */
TG_MUST_USE tg_status tg_options_read_array(const tg_json *o, tg_read_options *r,
                                            tg_error *err);

#endif
