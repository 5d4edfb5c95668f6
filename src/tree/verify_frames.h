/* tree/verify_frames.h - where the frames of an image lie, and how they are read. */
#ifndef TG_TREE_VERIFY_FRAMES_H
#define TG_TREE_VERIFY_FRAMES_H

#include "tree/verify_job.h"

/* The dimensions of an image that make a frame; the others, in C order, count the frames. */
typedef struct verify_layout {
    uint32_t axis;       /* the dimension that grows */
    uint32_t first;      /* of the frame's dimensions */
    uint32_t frame_dims; /* 1 (lines) or 2 */
    uint64_t n_frames;
    size_t frame_bytes;
} verify_layout;

enum { VERIFY_LAYOUTS = 3 };
/* What the image may be, most likely first; the number of them. */
uint32_t verify_layouts(const tg_array *image, verify_layout l[VERIFY_LAYOUTS]);
/* Frames [first, first + n), which lie along the fastest dimension that is not the frame's, to
 * dst, one after the other in C order. */
TG_MUST_USE tg_status verify_read_frames(tg_array *image, const verify_layout *l,
                                         uint64_t first, uint64_t n, uint8_t *dst,
                                         const tg_cancel *cancel, tg_error *err);
/* CRC-32C of one frame; may reorder its bytes. */
uint32_t verify_frame_crc(tg_dtype t, uint8_t *frame, size_t bytes);

#endif
