/* ome/ome.h - OME-NGFF documents as a recorder writes them: complete from the first second,
 * since none of them depends on how many frames there will be. Pure: JSON trees out. */
#ifndef TG_OME_OME_H
#define TG_OME_OME_H

#include "base/json.h"
#include "tidegate/dtype.h"
#include "tidegate/ome.h"

typedef enum tg_ome_version {
    TG_OME_NONE,
    TG_OME_0_4, /* Zarr 2; members lie in the attributes themselves */
    TG_OME_0_5  /* Zarr 3; members lie in attributes.ome */
} tg_ome_version;

enum { TG_OME_MAX_AXES = 5, TG_OME_MAX_LEVELS = 32 };

typedef struct tg_ome_axis {
    const char *name;
    const char *type; /* "time", "channel", "space", another word; NULL: by the name (t, c, x, y
                         and z), else "custom" */
    const char *unit; /* NULL: none */
    double scale;     /* of one step of level 0; 0: 1 */
} tg_ome_axis;

typedef struct tg_ome_channel {
    const char *name;
    const char *color; /* 6 hex digits; NULL: by its place (one channel: white) */
    double most;       /* greatest value of its pixels; 0: that of the type, of floats 1 */
} tg_ome_channel;

typedef struct tg_ome_image {
    tg_ome_version version;
    const char *name;                  /* NULL: "image" */
    tg_ome_axis axes[TG_OME_MAX_AXES]; /* in the order of storage; the last two are y and x */
    uint32_t n_axes;
    uint32_t n_levels; /* 1 or more; level i is the dataset "i" */
    /* How many items of level 0 one of level i stands for along the last two axes: 2^i, for
     * levels of halved extent (rounded up). */
    const char *method;             /* "mean", "min", "max", "decimate"; NULL with one level */
    tg_dtype dtype;                 /* of the pixels: the windows of the channels */
    uint32_t bits;                  /* significant bits of an integer; 0: all */
    const tg_ome_channel *channels; /* n_channels; 0: no omero member */
    uint32_t n_channels;
} tg_ome_image;

/* Is there an NGFF form for such axes? TG_UNSUPPORTED says what is in the way: more than 5
 * axes, fewer than 2, the last two not in space (frame axis last), time not first, channel
 * behind space, a name used twice. */
TG_MUST_USE tg_status tg_ome_image_check(const tg_ome_image *image, tg_error *err);
/* The members to merge into the group's attributes: {"ome": {...}} or {"multiscales": ...}. */
TG_MUST_USE tg_status tg_ome_image_attributes(const tg_ome_image *image, tg_json **out,
                                              tg_error *err);
/* Attributes of the groups above it: {"ome": {"version": "0.5"}} has no meaning by itself;
 * NULL is left in *out where nothing is to be written. "bioformats2raw.layout" 3 and the series
 * for a root whose images are named arrays. paths: n of them. */
TG_MUST_USE tg_status tg_ome_collection_attributes(tg_ome_version version,
                                                   const char *const *paths, uint32_t n,
                                                   tg_json **root, tg_json **ome_group,
                                                   tg_error *err);

/* --- Plates ---------------------------------------------------------------
 *
 * A plate is described by a JSON file (docs/recording.md): names of rows and columns, the wells
 * that are imaged, fields per well, frames per field, and the order in which they arrive. Every
 * field is one image, at ROW/COLUMN/FIELD. */
typedef struct tg_ome_plate tg_ome_plate;

/* TG_INVALID says which member is wrong and why. */
TG_MUST_USE tg_status tg_ome_plate_parse(tg_ome_plate **out, const char *text, size_t len,
                                         tg_error *err);
void tg_ome_plate_free(tg_ome_plate *p); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_ome_plate, tg_ome_plate_free)

uint32_t tg_ome_plate_wells(const tg_ome_plate *p);
uint32_t tg_ome_plate_fields(const tg_ome_plate *p); /* per well */
uint64_t tg_ome_plate_images(const tg_ome_plate *p); /* wells * fields */
uint64_t tg_ome_plate_frames(const tg_ome_plate *p); /* per field; 0: no end */
const char *tg_ome_plate_well_path(const tg_ome_plate *p, uint32_t well); /* "A/1", borrowed */
enum { TG_OME_PLATE_ROWS = 1000 };                                        /* at most */
uint32_t tg_ome_plate_well_row(const tg_ome_plate *p, uint32_t well);     /* by its place */
/* The row's name: the group above the well's. */
const char *tg_ome_plate_row_name(const tg_ome_plate *p, uint32_t row);
/* Path of image i = well * fields + field: "A/1/0". TG_INVALID if it does not fit. */
TG_MUST_USE tg_status tg_ome_plate_image_path(const tg_ome_plate *p, uint64_t image, char *dst,
                                              size_t cap, tg_error *err);
/* The n-th frame that arrives: which image it belongs to, and its place there. TG_INVALID:
 * beyond the last one. */
TG_MUST_USE tg_status tg_ome_plate_locate(const tg_ome_plate *p, uint64_t n, uint64_t *image,
                                          uint64_t *frame, tg_error *err);
/* The loops of arrival, the slowest first: i from 0 to TG_OME_PLATE_LOOPS - 1. */
typedef enum tg_ome_loop { TG_OME_LOOP_WELL, TG_OME_LOOP_FIELD, TG_OME_LOOP_FRAME } tg_ome_loop;
enum { TG_OME_PLATE_LOOPS = 3 };
tg_ome_loop tg_ome_plate_loop(const tg_ome_plate *p, uint32_t i);
/* Memory that it takes, and while its attributes and a well's are made and kept. */
size_t tg_ome_plate_bytes(const tg_ome_plate *p);
/* May an image still get frames after one of another image arrived? (fields not outermost) */
bool tg_ome_plate_interleaved(const tg_ome_plate *p);
/* Attributes of the plate's group and of a well's. Row groups have none. */
TG_MUST_USE tg_status tg_ome_plate_attributes(const tg_ome_plate *p, tg_ome_version version,
                                              tg_json **out, tg_error *err);
TG_MUST_USE tg_status tg_ome_well_attributes(const tg_ome_plate *p, tg_ome_version version,
                                             uint32_t well, tg_json **out, tg_error *err);

#endif
