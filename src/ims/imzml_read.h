/* ims/imzml_read.h - between imzml.c, imzml_read.c and imzml_spectrum.c. */
#ifndef TG_IMS_IMZML_READ_H
#define TG_IMS_IMZML_READ_H

#include "ims/imzml.h"
#include "ims/xml.h"

#define TG_GROUP_ID_BYTES 256

/* What the parameters of one array say. A direct one overrides that of a group. */
enum { TG_FIELD_KIND = 1, TG_FIELD_TYPE = 2, TG_FIELD_DEFLATED = 4 };
enum { TG_KIND_NONE, TG_KIND_MZ, TG_KIND_INTENSITY };

typedef struct tg_array_params {
    uint8_t set; /* TG_FIELD_* */
    uint8_t kind, type, deflated;
    uint32_t unsupported; /* a term whose arrays we cannot read */
    bool type_in_doubt;   /* accession and name disagreed */
} tg_array_params;

typedef struct tg_ims_group {
    char id[TG_GROUP_ID_BYTES];
    tg_array_params array;
    bool centroid, profile, positive, negative;
} tg_ims_group;

typedef struct tg_term_number {
    bool given, negative, bad;
    uint64_t v;
} tg_term_number;

typedef struct tg_array_state {
    tg_array_params direct, grouped;
    tg_term_number offset, count, encoded;
} tg_array_state;

typedef struct tg_imzml_reader {
    tg_imzml *m;
    tg_imzml_options options;
    tg_ims_group *groups;
    size_t n_groups, cap_groups;
    tg_ims_group *group; /* being defined, or NULL */
    bool in_spectrum, in_array;
    tg_array_state array; /* being read */
    /* the spectrum being read */
    tg_array_state found[2]; /* m/z, intensity */
    bool has[2];
    tg_term_number x, y, z, default_count;
    double position_3d[2];
    bool has_3d[2];
    uint64_t n_seen; /* spectra, skipped ones included */
    uint64_t first_z, last_offset;
    bool any_z, many_z;
    bool ended; /* the ibd ends before what the next spectra ask for (lenient) */
} tg_imzml_reader;

/* What the elements said of one spectrum, as an entry of the index. TG_INCOMPLETE: the ibd ends
 * before its arrays do. The message does not name the spectrum. */
TG_MUST_USE tg_status tg_imzml_settle(tg_imzml_reader *r, tg_spectrum *s, tg_error *err);

/* Fill the declarations and the index from the document; m->source and m->ibd_bytes are set. */
TG_MUST_USE tg_status tg_imzml_read(tg_imzml *m, const tg_imzml_options *options, uint8_t *room,
                                    size_t room_bytes, const tg_cancel *cancel, tg_error *err);
/* Room for one more spectrum. */
TG_MUST_USE tg_status tg_imzml_grow(tg_imzml *m, tg_error *err);
/* Back to a data set of which nothing was read; blocks stay for the next reading. */
void tg_imzml_forget(tg_imzml *m);

#endif
