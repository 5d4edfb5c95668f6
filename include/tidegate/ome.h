/* tidegate/ome.h - check OME-NGFF metadata (0.4 on Zarr 2, 0.5 on Zarr 3). */
#ifndef TG_OME_H
#define TG_OME_H

#include "tidegate/cancel.h"
#include "tidegate/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_ome_verdict {
    size_t size; /* sizeof(tg_ome_verdict), set by the caller */
    int valid;
    char kind[16];     /* "image", "plate", "well", "labels", "label", "collection" */
    char version[8];   /* "0.4", "0.5" */
    char message[512]; /* what is wrong first, with the node's path; "" if valid */
} tg_ome_verdict;

/* Does the hierarchy at path ("": the root) follow OME-NGFF: images with their arrays, labels
 * with theirs, wells of a plate with their images? TG_OK: it was checked, verdict says what was
 * found. TG_NOT_FOUND: no Zarr node there. A document or array that cannot be read is a failure
 * only if the store fails; one that is missing or broken makes it invalid. */
TG_API TG_MUST_USE tg_status tg_ome_validate(tg_store *store, const char *path,
                                             tg_ome_verdict *verdict, const tg_cancel *cancel,
                                             tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
