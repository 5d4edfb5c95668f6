/* stream/arena.h - the recorder's memory. */
#ifndef TG_STREAM_ARENA_H
#define TG_STREAM_ARENA_H

#include "stream/recorder.h"

/* Map the arena and cut it as the lanes' plans have it. */
TG_MUST_USE tg_status tg_arena_cut(tg_stream *s, tg_error *err);

#endif
