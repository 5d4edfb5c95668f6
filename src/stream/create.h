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
TG_MUST_USE tg_status tg_create_level(tg_lane *n, const tg_stream_array *a, uint32_t plane,
                                      tg_error *err);
TG_MUST_USE tg_status tg_create_lane(tg_lane *n, const tg_stream_array *a, tg_error *err);
/* Make a group unless it is there. */
TG_MUST_USE tg_status tg_create_group(tg_stream *s, const tg_group *g, tg_error *err);
tg_group *tg_lane_group(const tg_lane *n);
/* The metadata of a ZIP, put when all chunks are in it; with `out` only as {key: text}. */
TG_MUST_USE tg_status tg_zip_documents(tg_stream *s, tg_error *err);
TG_MUST_USE tg_status tg_zip_documents_json(const tg_stream *s, tg_json **out, tg_error *err);
/* What is done with one document. */
typedef tg_status (*tg_document_fn)(void *user, const char *key, const char *text,
                                    tg_error *err);
/* One document NAME of the node at path; a NULL text is none. */
TG_MUST_USE tg_status tg_document_pass(const char *path, const char *name, const char *text,
                                       tg_document_fn fn, void *user, tg_error *err);
TG_MUST_USE tg_status tg_document_put(void *store, const char *key, const char *text,
                                      tg_error *err); /* a tg_document_fn: lazily */
/* Documents of one plane of an image, with the shape that it has after `slots` slots. */
TG_MUST_USE tg_status tg_plane_documents(const tg_lane *n, uint64_t image, uint32_t plane,
                                         uint64_t slots, tg_document_fn fn, void *user,
                                         tg_error *err);
void tg_groups_free(tg_stream *s);

/* --- plate.c: a plate's rows, wells and fields ------------------------------------------ */

/* All documents below the plate's group: rows, wells, fields and their arrays, one by one. */
TG_MUST_USE tg_status tg_plate_documents(const tg_lane *n, uint64_t slots, tg_document_fn fn,
                                         void *user, tg_error *err);
/* Put them, with shape 0; durable on return. */
TG_MUST_USE tg_status tg_plate_create(tg_lane *n, tg_error *err);
/* The shapes of all fields as `slots` slots make them; durable on return. Those that have them
 * already are left alone. */
TG_MUST_USE tg_status tg_plate_show(tg_lane *n, uint64_t slots, tg_error *err);
/* The array of one level of one field, as it is in the store. */
typedef struct tg_found_plane {
    tg_lane *lane;
    uint64_t image;
    uint32_t plane;
    tg_array *array;
    const tg_array_info *info;
} tg_found_plane;
typedef tg_status (*tg_plane_fn)(void *user, const tg_found_plane *found, tg_error *err);
/* (append, recover) All of them, one by one. TG_NOT_FOUND: one is not there. */
TG_MUST_USE tg_status tg_plate_look(tg_lane *n, tg_plane_fn look, void *user, tg_error *err);
TG_MUST_USE tg_status tg_plate_open(const tg_lane *n, uint64_t image, uint32_t plane,
                                    tg_array **out, tg_error *err);
/* Put the shape that `slots` slots make. Durable after a tg_store_sync(). */
TG_MUST_USE tg_status tg_plate_put_shape(tg_lane *n, tg_array *a, uint64_t image,
                                         uint32_t plane, uint64_t slots, tg_error *err);
/* Frames that an image has by its shape. */
uint64_t tg_plane_frames(const tg_layout *l, const tg_array_info *info);

/* Metadata of a plane as the options have it, at shape 0. */
TG_MUST_USE tg_status tg_make_meta(tg_lane *n, const tg_stream_array *a, uint32_t plane,
                                   tg_error *err);
tg_frame_table_options tg_lane_table_options(const tg_lane *n);

#endif
