/* ims/imzml_read.h - between imzml.c and imzml_read.c. */
#ifndef TG_IMS_IMZML_READ_H
#define TG_IMS_IMZML_READ_H

#include "ims/imzml.h"
#include "ims/xml.h"

typedef struct tg_imzml_reader tg_imzml_reader;

/* Fill the declarations and the index from the document; m->source and m->ibd_bytes are set. */
TG_MUST_USE tg_status tg_imzml_read(tg_imzml *m, const tg_imzml_options *options, uint8_t *room,
                                    size_t room_bytes, const tg_cancel *cancel, tg_error *err);
/* Room for one more spectrum. */
TG_MUST_USE tg_status tg_imzml_grow(tg_imzml *m, tg_error *err);
/* Back to a data set of which nothing was read; blocks stay for the next reading. */
void tg_imzml_forget(tg_imzml *m);

#endif
