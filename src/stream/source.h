/* stream/source.h - how to add a kind of source. What programs see is in tidegate/source.h. */
#ifndef TG_STREAM_SOURCE_H
#define TG_STREAM_SOURCE_H

#include "base/mem.h"
#include "tidegate/source.h"

/* What the text of a source says; text is borrowed from it. */
typedef struct tg_source_spec {
    tg_source_kind kind;
    const char *text; /* path, "-", or a camera's id ("": the first one) */
    uint64_t height, width;
    tg_dtype dtype;
    double fps; /* test: 0: not paced */
} tg_source_spec;

TG_MUST_USE tg_status tg_source_spec_parse(const char *text, tg_source_spec *out,
                                           tg_error *err);

/* A kind's struct begins with a tg_source. The front end (source.c) has checked the arguments
 * and cleared the frame; room and pitch are as the public call has them, pitch never 0. */
typedef struct tg_source_ops {
    tg_status (*next)(tg_source *, void *room, size_t pitch, tg_source_frame *,
                      const tg_cancel *, tg_error *);
    void (*stop)(tg_source *);  /* may be NULL */
    void (*close)(tg_source *); /* frees; takes half-built ones */
} tg_source_ops;

struct tg_source {
    const tg_source_ops *ops;
    tg_source_info info;
    bool ended; /* nothing comes any more */
};

TG_MUST_USE tg_status tg_source_open_test(const tg_source_options *options,
                                          const tg_source_spec *spec, tg_source **out,
                                          tg_error *err);
TG_MUST_USE tg_status tg_source_open_raw(const tg_source_options *options,
                                         const tg_source_spec *spec, tg_source **out,
                                         tg_error *err);
TG_MUST_USE tg_status tg_source_open_aravis(const tg_source_options *options,
                                            const tg_source_spec *spec, tg_source **out,
                                            tg_error *err);

/* Bytes of a dense frame. TG_INVALID: no items, strings, or more than fits memory. */
TG_MUST_USE tg_status tg_source_frame_bytes(uint64_t height, uint64_t width, tg_dtype dtype,
                                            size_t *bytes, tg_error *err);
/* Longest time in nanoseconds that a source waits without looking at the cancel token. */
#define TG_SOURCE_LOOK_NS ((int64_t)50000000)

#endif
