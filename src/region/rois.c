/* Lists of regions: given back. */
#include "region/rois.h"

void tg_roi_list_destroy(tg_roi_list *l)
{
    tg_free(l->start);
    tg_free(l->length);
    tg_free(l->label);
    tg_free(l->name);
    tg_free(l->names);
    *l = (tg_roi_list){0};
}
