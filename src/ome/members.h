/* ome/members.h - what all files of this folder do with JSON. */
#ifndef TG_OME_MEMBERS_H
#define TG_OME_MEMBERS_H

#include "base/json.h"
#include "ome/ome.h"

/* {KEY: value} as members of that version. Takes value over (NULL: no memory). */
TG_MUST_USE tg_status tg_ome_members(tg_ome_version version, const char *key, tg_json *value,
                                     tg_json **out, tg_error *err);

/* The text of a node that is a string, else `otherwise`. */
static inline const char *ome_text(const tg_json *v, const char *otherwise)
{
    const char *text = otherwise;
    return tg_json_string(v, &text, NULL, NULL) == TG_OK ? text : otherwise;
}

#endif
