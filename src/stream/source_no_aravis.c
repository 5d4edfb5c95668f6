/* Stands in for source_aravis.c in a library built without Aravis. */
#include "base/error.h"
#include "stream/source.h"

tg_status tg_source_open_aravis(const tg_source_options *options, const tg_source_spec *spec,
                                tg_source **out, tg_error *err)
{
    (void)options;
    (void)out;
    return tg_fail(err, TG_UNSUPPORTED,
                   "camera '%s': this library was built without Aravis (libaravis-dev)",
                   spec->text[0] == '\0' ? "aravis" : spec->text);
}
