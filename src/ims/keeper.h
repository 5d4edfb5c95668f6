/* ims/keeper.h - keeps the images of ions whose FDR is not known yet, in a fixed number of
 * bytes.
 *
 * An image is compressed when it comes, alone, so that it can be read alone; its room is there
 * before it is added. What fits is held in memory; when the room is full the keeper writes it
 * out by itself, as one immutable block with an index at its end (docs/formats/annotate.md),
 * under a name that no other process or run makes, and goes on. Who adds gets a reference.
 *
 * Kept images are never the only source: what a killed run had not written out is extracted
 * from the sorted peaks again.
 *
 * Threads: adding from many, each with a coder of its own; all else from one. */
#ifndef TG_IMS_KEEPER_H
#define TG_IMS_KEEPER_H

#include "ims/imager.h"
#include "ims/side.h"

/* --- One image and its bytes -------------------------------------------------------------- */

/* The images of one ion, sparse. Decoded ones have rising pixels, and values that are not 0. */
typedef struct tg_sparse {
    uint32_t n[TG_N_IMAGES]; /* 0: no image */
    const uint32_t *pixels[TG_N_IMAGES];
    const float *values[TG_N_IMAGES];
} tg_sparse;

/* Room and contexts of one thread. */
typedef struct tg_image_coder tg_image_coder;
uint64_t tg_image_coder_bytes(uint64_t n_pixels, bool encode);
TG_MUST_USE tg_status tg_image_coder_new(tg_image_coder **out, uint64_t n_pixels, bool encode,
                                         tg_error *err);
void tg_image_coder_free(tg_image_coder *c);
TG_DEFINE_AUTO_PTR(tg_image_coder, tg_image_coder_free)

/* Images as an imager has them: pixels in any order, for all images the same. */
typedef struct tg_touched {
    size_t n;
    const uint32_t *pixels;
    const float *values[TG_N_IMAGES]; /* NULL: no image */
} tg_touched;
tg_touched tg_touched_by(const tg_imager *m);
/* They as a record; borrowed until the next call. */
TG_MUST_USE tg_status tg_image_encode(tg_image_coder *c, const tg_touched *images,
                                      tg_bytes *record, tg_error *err);
/* TG_CORRUPT: it is no record of images of so many pixels. *out is borrowed until the next
 * call. */
TG_MUST_USE tg_status tg_image_decode(tg_image_coder *c, tg_bytes record, tg_sparse *out,
                                      tg_error *err);

/* The most that a record of images of so many pixels is long. */
uint64_t tg_image_record_bytes(uint64_t n_pixels);
/* Room that a record may be read into, before it is decoded. */
tg_buf tg_image_coder_room(tg_image_coder *c);

/* --- Keeping ------------------------------------------------------------------------------ */

typedef struct tg_image_ref {
    uint64_t hash[2]; /* of the ion's name */
    uint64_t offset;  /* in its block */
    uint32_t len, block;
} tg_image_ref;

typedef struct tg_keeper tg_keeper;

/* side: where blocks go, in a folder `spill`; borrowed. job: what the images depend on, as a
 * checksum. room_bytes are reserved from the budget and are all that it ever takes, whatever is
 * added; TG_OVER_BUDGET: a single ion's images might not fit them, with what would be enough.
 */
TG_MUST_USE tg_status tg_keeper_new(tg_keeper **out, const tg_ims_side *side, uint32_t job,
                                    uint64_t n_pixels, uint64_t room_bytes, tg_budget *budget,
                                    tg_error *err);
uint64_t tg_keeper_least_bytes(uint64_t n_pixels);
void tg_keeper_free(tg_keeper *k);
TG_DEFINE_AUTO_PTR(tg_keeper, tg_keeper_free)

TG_MUST_USE tg_status tg_keeper_add(tg_keeper *k, const uint64_t hash[2], tg_bytes record,
                                    tg_image_ref *ref, tg_error *err);
/* Write out what is in memory, for other processes. */
TG_MUST_USE tg_status tg_keeper_flush(tg_keeper *k, tg_error *err);
/* The record of a reference, in memory or in a block, into room of `cap` bytes. */
TG_MUST_USE tg_status tg_keeper_get(tg_keeper *k, const tg_image_ref *ref, uint8_t *room,
                                    size_t cap, tg_error *err);
uint64_t tg_keeper_spilled(const tg_keeper *k); /* bytes */
uint32_t tg_keeper_blocks(const tg_keeper *k);

/* --- What runs have kept ------------------------------------------------------------------ */

typedef struct tg_kept tg_kept;

/* The index of every whole block of this job in `side`, of this run and of others, dead ones
 * too. Blocks that end in their middle, or are of another job, are passed over. The index is
 * reserved from the budget. */
TG_MUST_USE tg_status tg_kept_open(tg_kept **out, const tg_ims_side *side, uint32_t job,
                                   uint64_t n_pixels, tg_budget *budget, tg_error *err);
void tg_kept_free(tg_kept *k);
TG_DEFINE_AUTO_PTR(tg_kept, tg_kept_free)
uint64_t tg_kept_count(const tg_kept *k);
/* The images of an ion. TG_NOT_FOUND: none are kept. TG_CORRUPT: the block is damaged. Threads:
 * any number, each with its own coder. */
TG_MUST_USE tg_status tg_kept_get(const tg_kept *k, const uint64_t hash[2], tg_image_coder *c,
                                  tg_sparse *out, tg_error *err);

/* --- One block, for its readers and for tests ----------------------------------------------
 */

/* Judge the end of a block of `size` bytes that `tail` (the last n of them) holds, and where
 * its index is. TG_CORRUPT, TG_UNSUPPORTED: a newer version. */
typedef struct tg_block_end {
    uint64_t index_at;
    uint32_t n, job, n_pixels;
    uint32_t crc32c; /* of the index */
} tg_block_end;
#define TG_BLOCK_END_BYTES 40
TG_MUST_USE tg_status tg_block_end_read(const uint8_t tail[TG_BLOCK_END_BYTES], uint64_t size,
                                        tg_block_end *out, tg_error *err);

#endif
