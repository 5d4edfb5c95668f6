/* stream/create.h - groups, arrays and tables of a recording, new ones or those of an earlier
 * one. */
#ifndef TG_STREAM_CREATE_H
#define TG_STREAM_CREATE_H

#include "stream/recorder.h"

/* Open the store as the mode has it: nothing there, emptied, or to go on. */
TG_MUST_USE tg_status tg_create_store(tg_stream *s, const tg_stream_options *o, tg_error *err);
/* Make all documents in memory: attributes, OME-NGFF, metadata. Before the store is touched, so
 * that what cannot be is refused with nothing left behind. */
TG_MUST_USE tg_status tg_create_prepare(tg_stream *s, const tg_stream_options *o,
                                        tg_error *err);
/* Groups, arrays of shape 0 and tables (or those that are there), as prepared; durable on
 * return. */
TG_MUST_USE tg_status tg_create(tg_stream *s, const tg_stream_options *o, tg_error *err);
/* Open what is there, compare it with the options, and go on behind it. */
TG_MUST_USE tg_status tg_create_append(tg_stream *s, const tg_stream_options *o, tg_error *err);
/* An array that is not there yet, of the store that is. */
TG_MUST_USE tg_status tg_create_lane(tg_lane *n, const tg_stream_array *a, tg_error *err);
/* Make a group unless it is there. */
TG_MUST_USE tg_status tg_create_group(tg_stream *s, const tg_group *g, tg_error *err);
tg_group *tg_lane_group(const tg_lane *n);
/* The metadata of a ZIP, put when all chunks are in it; with `out` only as {key: text}. */
TG_MUST_USE tg_status tg_zip_documents(tg_stream *s, tg_error *err);
TG_MUST_USE tg_status tg_zip_documents_json(const tg_stream *s, tg_json **out, tg_error *err);
void tg_groups_free(tg_stream *s);

/* Metadata of a plane as the options have it, at shape 0. */
TG_MUST_USE tg_status tg_make_meta(tg_lane *n, const tg_stream_array *a, uint32_t plane,
                                   tg_error *err);
TG_MUST_USE tg_status tg_plane_path(const tg_lane *n, uint32_t plane, char *dst, size_t cap,
                                    tg_error *err);
tg_frame_table_options tg_lane_table_options(const tg_lane *n);

#endif
