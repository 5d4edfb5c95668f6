/* ome/plate.h - inside of a plate: plate.c reads it, plate_attributes.c writes its documents.
 */
#ifndef TG_OME_PLATE_H
#define TG_OME_PLATE_H

#include "ome/members.h"
#include "ome/ome.h"

enum { PLATE_NAME_MAX = 31, PLATE_LOOPS = TG_OME_PLATE_LOOPS };

typedef struct plate_name {
    char text[PLATE_NAME_MAX + 1];
} plate_name;

typedef struct plate_well {
    uint32_t row, column;
    char path[2 * PLATE_NAME_MAX + 2];
} plate_well;

struct tg_ome_plate {
    tg_json *document;
    plate_name *rows, *columns;
    uint32_t n_rows, n_columns;
    plate_well *wells;
    uint32_t n_wells, n_fields;
    uint64_t n_frames;              /* per field; 0: no end */
    tg_ome_loop order[PLATE_LOOPS]; /* of arrival, the slowest first */
};

#endif
