/* stream/arena.h - the recorder's memory. */
#ifndef TG_STREAM_ARENA_H
#define TG_STREAM_ARENA_H

#include "stream/recorder.h"

/* Map the arena and cut it as the lanes' plans have it. All is touched but the slabs, of which
 * the rings have none yet. */
TG_MUST_USE tg_status tg_arena_cut(tg_stream *s, tg_error *err);
/* Touch the slabs and hand them to the rings, one after the other. What a thread runs. */
void tg_arena_touch(void *stream);

#endif
