/* region/border.h - what a part of a run makes for units that it may not write by itself:
 * regions' results, cut to a unit, in a file that `finish` folds in list order.
 *
 * `border-PART`: magic "TGBORDER", u32 version, u32 part, u64 fingerprint of the plan; then
 * fragments: u32 unit, u32 region, u64 bytes, u32 crc32c of the bytes, u32 crc32c of the 20
 * bytes before, the items in C order, of OUT's type, of the region's write box cut to the unit;
 * policy mask: then a byte for each of them, 0 where it is not the region's.
 * `done-PART`, made when all is durable: u64 length and u32 crc32c of the border file, u32
 * crc32c of these 12 bytes. */
#ifndef TG_REGION_BORDER_H
#define TG_REGION_BORDER_H

#include "base/sync.h"
#include "region/accum.h"
#include "region/folder.h"
#include "store/file_io.h"

#define TG_BORDER_VERSION 2

typedef struct tg_border tg_border;

/* A new one; what an earlier run of the part has left is forgotten. */
TG_MUST_USE tg_status tg_border_new(tg_border **out, const tg_folder *folder, uint32_t part,
                                    uint64_t fingerprint, tg_error *err);
/* Any thread. `cut` lies in the patch's box. */
TG_MUST_USE tg_status tg_border_add(tg_border *b, uint32_t unit, uint32_t region,
                                    const tg_patch *patch, const tg_box *cut, size_t item_bytes,
                                    tg_error *err);
/* All is durable, and so says done-PART. */
TG_MUST_USE tg_status tg_border_end(tg_border *b, tg_error *err);
/* *length: bytes of the part's border file, at least its head; 0: the part is not done. */
TG_MUST_USE tg_status tg_border_is_done(const tg_folder *folder, uint32_t part,
                                        uint64_t *length, tg_error *err);
void tg_border_free(tg_border *b); /* may be NULL */

#endif
