/* tidegate/source.h - where frames come from: a synthetic camera, raw bytes, GenICam cameras.
 *
 * A source hands out one frame after the other, in its own memory or in room of the caller's
 * (a slab leased by tg_stream_lease()). A program with another driver needs none of this: it
 * calls tg_stream_append() itself.
 *
 * Threads: a source belongs to one thread at a time; tg_source_get_info() may be called from
 * any. What waits is ended by the cancel token within 100 ms; only a camera that has fallen
 * silent takes longer, some seconds, while it is asked whether it is there. */
#ifndef TG_SOURCE_H
#define TG_SOURCE_H

#include "tidegate/cancel.h"
#include "tidegate/dtype.h"
#include "tidegate/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_source tg_source;

typedef enum tg_source_kind {
    TG_SOURCE_TEST,  /* "test:WxH:DTYPE[@FPS]" */
    TG_SOURCE_RAW,   /* "-" (standard input) or the path of a file or FIFO */
    TG_SOURCE_ARAVIS /* "aravis" (the first camera found) or "aravis:ID" */
} tg_source_kind;

typedef struct tg_source_options {
    size_t size;      /* sizeof(tg_source_options) */
    const char *spec; /* as above */
    uint32_t array;   /* number of the array: goes into the pixels of a test source */
    /* Raw frames: what the bytes are; all needed. Refused for other sources (TG_INVALID). */
    uint64_t height, width;
    tg_dtype dtype;
    double fps; /* raw frames: metadata only; 0: not known */
    /* Cameras: GenICam features as "KEY=VALUE", set in this order before the start. Refused for
     * other sources. */
    const char *const *features;
    uint32_t n_features;
    double lost_after; /* cameras: seconds without a frame after which it is asked whether it is
                          still there; 0: 3 */
} tg_source_options;

typedef struct tg_source_info {
    size_t size; /* sizeof(tg_source_info), set by the caller */
    tg_source_kind kind;
    char name[128];         /* "test", "-", the path, the camera's id */
    char model[128];        /* vendor and model of a camera; "" */
    char pixel_format[32];  /* PFNC name of a camera's format, such as "BayerRG12p"; "" */
    char bayer[8];          /* colour filter "RG", "GR", "GB", "BG"; "": none */
    tg_dtype dtype;         /* of the array to record into: uint16 for packed formats */
    uint32_t bits;          /* significant bits of an item */
    uint64_t height, width; /* items */
    double fps;             /* paced or nominal; 0: not known */
    tg_pixel_format pixels; /* how the frames of tg_source_next() are packed */
    tg_id_kind ids;
    uint64_t buffer_bytes; /* memory of its own: with `fills` only if next gets no room */
    bool fills;            /* writes into the caller's room without a copy: worth a lease */
    bool can_wait;         /* false: frames are lost if nobody takes them */
} tg_source_info;

/* One frame. */
typedef struct tg_source_frame {
    size_t size;        /* sizeof(tg_source_frame), set by the caller */
    const void *pixels; /* the source's until the next call, or the caller's room; NULL: the
                           input ended inside a frame (a row without pixels, and the end) */
    uint64_t bytes;     /* that came: fewer than a whole frame has if pixels are NULL */
    tg_frame_layout layout;
    tg_frame_meta meta; /* columns NULL */
} tg_source_frame;

/* Split "NAME=SOURCE" as the command takes it: *source points behind the '=' and name gets what
 * is before; without a NAME= that could be a node's path, name is "" and *source the whole text
 * (so "./a=b.raw" is a file). TG_INVALID: an empty source, or a name longer than cap. */
TG_API TG_MUST_USE tg_status tg_source_split(const char *text, char *name, size_t cap,
                                             const char **source, tg_error *err);
/* Open and check everything; a camera is connected, its features set, but not started before
 * the first frame is asked for. TG_INVALID: the spec, shape, dtype; an unknown feature or a
 * value it does not take (named). TG_NOT_FOUND: no such file or camera. TG_UNSUPPORTED: a pixel
 * format that we cannot store (named), or cameras in a library built without Aravis. */
TG_API TG_MUST_USE tg_status tg_source_open(const tg_source_options *options, tg_source **out,
                                            tg_error *err);
TG_API void tg_source_get_info(const tg_source *s, tg_source_info *info);

/* The next frame, waiting for it. room: NULL, or memory for one unpacked frame whose rows are
 * row_pitch bytes apart (0: dense); sources with `fills` then write there, and frame->pixels
 * says whether one did. TG_CLOSED: the end (a raw input is used up, the source was stopped).
 * TG_CANCELLED, TG_TIMED_OUT: by the token. TG_IO: the input failed or the camera is gone; the
 * message names it. */
TG_API TG_MUST_USE tg_status tg_source_next(tg_source *s, void *room, size_t row_pitch,
                                            tg_source_frame *frame, const tg_cancel *cancel,
                                            tg_error *err);
/* Stop a camera's acquisition; later calls of next return TG_CLOSED. Frees nothing. */
TG_API void tg_source_stop(tg_source *s);
TG_API void tg_source_close(tg_source *s); /* stop and free; s may be NULL */

/* What a test source shows. item receives one native item of dtype, of the frame with number
 * `sequence` of array `array`, `width` items wide. Every item depends on all of array, sequence
 * and place:
 *
 *   p = (y * width + x) * size                  place of the item in bytes
 *   key(b) = mix(mix(mix(array + C) + sequence) + b)
 *   word(i) = (mix(i % 4096 + 1) ^ key(i / 4096)) & M          64 bits, byte 0 is the lowest
 *   item = bytes p % 8 ... of word(p / 8), and of the word after it; little-endian
 *
 * mix is the finisher of splitmix64 (z ^= z >> 30, * 0xBF58476D1CE4E5B9, z ^= z >> 27,
 * * 0x94D049BB133111EB, z ^= z >> 31), C = 0x9E3779B97F4A7C15. M has all bits set but the top
 * bit of the exponent of floats (so all are finite, below 2) and all but bit 0 of bools. */
TG_API void tg_source_test_pixel(uint32_t array, uint64_t sequence, uint64_t y, uint64_t x,
                                 uint64_t width, tg_dtype dtype, void *item);

#ifdef __cplusplus
}
#endif
#endif
