/* stream/place.h - a frame into its places in a slab: copied, cut into tiles and summed in one
 * pass. Pure: no memory of its own, no locks. */
#ifndef TG_STREAM_PLACE_H
#define TG_STREAM_PLACE_H

#include "stream/layout.h"
#include "stream/unpack.h"

/* crc32c of A followed by n bytes of B is shift(crc(A)) ^ crc(B); for one n this is four
 * look-ups. */
typedef struct tg_crc_shift {
    uint32_t t[4][256];
} tg_crc_shift;
void tg_crc_shift_init(tg_crc_shift *s, uint64_t n_bytes);
static inline uint32_t tg_crc_shift_by(const tg_crc_shift *s, uint32_t crc)
{
    return s->t[0][crc & 0xff] ^ s->t[1][crc >> 8 & 0xff] ^ s->t[2][crc >> 16 & 0xff] ^
           s->t[3][crc >> 24];
}

/* What placing needs besides the layout; made once an array. */
typedef struct tg_placer {
    const tg_layout *layout;
    bool sum_frame, sum_chunks;
    tg_crc_shift by_frame; /* dense frame */
    tg_crc_shift by_run;   /* a row of a whole tile */
    tg_crc_shift by_last;  /* a row of the last tile, without overhang */
    uint32_t fill_sum;     /* of a tile of zeros, tile_bytes long */
    tg_crc_shift by_tile;  /* tile_bytes */
} tg_placer;
void tg_placer_init(tg_placer *p, const tg_layout *layout);

/* Frame `view` into place `place` of the slab whose level 0 begins at data. sums: the running
 * sums of its chunks, updated if the placer sums chunks. row: room for one dense row of items,
 * used only if the view is not direct. Returns the frame's own sum, 0 if it does not sum. */
uint32_t tg_place_frame(const tg_placer *p, uint8_t *data, uint32_t *sums, uint64_t place,
                        const tg_frame_view *view, uint8_t *row);
/* Place `place` has no pixels: zeros. */
void tg_place_fill(const tg_placer *p, uint8_t *data, uint32_t *sums, uint64_t place);
/* The frame lies in its place already (a lease): only sum it. */
uint32_t tg_place_leased(const tg_placer *p, const uint8_t *data, uint32_t *sums,
                         uint64_t place);
/* The crc32c behind each raw chunk of a plane, from the sums or (summed false) from the pixels.
 * sums is then set. */
void tg_place_seal(const tg_layout *l, uint32_t plane, uint8_t *data, uint32_t *sums,
                   bool summed);

/* A dense frame of a level into its place (levels of a pyramid, tail file), and back. */
void tg_place_dense(const tg_layout *l, const tg_plane *p, uint8_t *data, uint64_t place,
                    const uint8_t *frame);
void tg_place_read(const tg_layout *l, const tg_plane *p, const uint8_t *data, uint64_t place,
                   uint8_t *frame);

#endif
