/* ims/identity.h - what tells one data set from another, without reading all of it: lengths,
 * the checksum of the .imzML, which says what the .ibd is, and that of both ends of the .ibd.
 *
 * For files of the local file system a note beside the sorted peaks keeps it, so that a later
 * annotation need not read the .imzML again. */
#ifndef TG_IMS_IDENTITY_H
#define TG_IMS_IDENTITY_H

#include "ims/source.h"

typedef struct tg_identity {
    char digest[80]; /* "" while it is not known; hexadecimal digits and '-' */
    char stamp[160]; /* lengths and times of the two files; "": not local, or too new to tell */
} tg_identity;

/* What the note in `home` says, if it is of these two files as they are; else digest is "".
 * url: as it was opened. */
void tg_identity_recall(tg_identity *out, const tg_ims_source *s, const char *url,
                        tg_store *home, const tg_cancel *cancel);
/* xml_crc32c: of the whole .imzML, or NULL: read it. */
TG_MUST_USE tg_status tg_identity_make(tg_identity *id, const tg_ims_source *s,
                                       const uint32_t *xml_crc32c, const tg_cancel *cancel,
                                       tg_error *err);
/* Leave a note for the next run, where the files can be told by their times. */
TG_MUST_USE tg_status tg_identity_note(const tg_identity *id, tg_store *home,
                                       const tg_cancel *cancel, tg_error *err);

#endif
