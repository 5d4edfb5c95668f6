/* cli/record_run.c - one thread per source, from its first frame to its end. The main thread
 * waits, and hands a signal on to the recorder. */
#include "record.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* One source's thread. */
typedef struct feed {
    recording *r;
    uint32_t i;
    pthread_t thread;
    uint64_t frames;
    bool leases;
    tg_status status; /* of the stream */
    tg_error err;
    bool input_failed; /* err is the source's */
    atomic_bool ended;
} feed;

static tg_stream *stream_of(const feed *f)
{
    return f->r->stream;
}

/* Without --frames a plate, or dimensions that have an end, say how many there are. */
static bool is_full(const feed *f)
{
    return f->r->o->frames == 0 && tg_stream_room(stream_of(f), f->i) == 0;
}

static bool enough(const feed *f)
{
    return is_full(f) || (f->r->o->frames > 0 && f->frames >= f->r->o->frames);
}

/* How a source ended: by itself, by a signal or the deadline, or by a failure that is its own.
 */
static void note_end(feed *f, tg_status st, const tg_error *err)
{
    switch (st) {
    case TG_CLOSED:
        if (f->r->o->frames > 0 && f->frames < f->r->o->frames)
            f->r->short_of_frames = true;
        break;
    case TG_TIMED_OUT: /* --seconds */
        break;
    case TG_CANCELLED:
        break;
    default:
        f->input_failed = true;
        f->err = *err;
        break;
    }
}

/* One frame that the source has in its own memory. */
static tg_status append(feed *f, tg_source_frame *frame)
{
    if (frame->pixels == NULL)
        return tg_stream_note(stream_of(f), f->i, 1, TG_FRAME_PARTIAL, &frame->meta, &f->err);
    return tg_stream_append(stream_of(f), f->i, frame->pixels, 1, &frame->layout, &frame->meta,
                            NULL, &f->err);
}

static void set_columns(const feed *f, tg_source_frame *frame)
{
    frame->meta.columns = f->r->layout.has_column_values ? f->r->layout.column_items : NULL;
}

/* Frames lost before this one may have filled the array: then it is one too many. */
static bool after_frame(feed *f)
{
    if (f->status == TG_INVALID && is_full(f)) {
        f->status = TG_OK;
        return false;
    }
    f->frames++;
    return f->status == TG_OK;
}

/* The source fills a slab of the ring. False: it has ended. */
static bool step_leased(feed *f)
{
    void *room = NULL;
    size_t pitch = 0;
    f->status = tg_stream_lease(stream_of(f), f->i, &room, &pitch, &f->err);
    if (f->status != TG_OK)
        return false;
    tg_error err;
    tg_source_frame frame = {.size = sizeof frame};
    tg_status st =
        tg_source_next(f->r->source[f->i].source, room, pitch, &frame, f->r->c->cancel, &err);
    if (st != TG_OK) {
        tg_stream_unlease(stream_of(f), f->i);
        note_end(f, st, &err);
        return false;
    }
    set_columns(f, &frame);
    if (frame.pixels == room) {
        f->status = tg_stream_commit(stream_of(f), f->i, &frame.meta, &f->err);
    } else {
        tg_stream_unlease(stream_of(f), f->i);
        f->status = append(f, &frame);
    }
    return after_frame(f);
}

static bool step_copied(feed *f)
{
    tg_error err;
    tg_source_frame frame = {.size = sizeof frame};
    tg_status st =
        tg_source_next(f->r->source[f->i].source, NULL, 0, &frame, f->r->c->cancel, &err);
    if (st != TG_OK) {
        note_end(f, st, &err);
        return false;
    }
    set_columns(f, &frame);
    f->status = append(f, &frame);
    return after_frame(f);
}

/* A lease is worth it if the source writes into it and no frame is ever dropped; layouts that
 * cannot lease say so at the first try. */
static bool can_lease(feed *f)
{
    void *room = NULL;
    size_t pitch = 0;
    tg_error err;
    if (!f->r->source[f->i].info.fills || f->r->array[f->i].on_full != TG_FULL_BLOCK)
        return false;
    if (tg_stream_lease(stream_of(f), f->i, &room, &pitch, &err) != TG_OK)
        return false;
    tg_stream_unlease(stream_of(f), f->i);
    return true;
}

static void *feed_frames(void *arg)
{
    feed *f = arg;
    f->leases = can_lease(f);
    while (!enough(f) && (f->leases ? step_leased(f) : step_copied(f)))
        ;
    if (enough(f))
        tg_source_stop(f->r->source[f->i].source);
    if (f->status == TG_CANCELLED || f->status == TG_OK) {
        tg_error err;
        tg_status st =
            tg_stream_end_array(stream_of(f), f->i, f->input_failed ? &f->err : NULL, &err);
        if (f->status == TG_OK && !f->input_failed && st != TG_CANCELLED && st != TG_OK) {
            f->status = st;
            f->err = err;
        }
    }
    atomic_store(&f->ended, true);
    return NULL;
}

static bool all_ended(feed *feeds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!atomic_load(&feeds[i].ended))
            return false;
    return true;
}

/* Until all sources have ended. A signal ends a source's wait for a frame by its token; a wait
 * for room in the ring is ended through the recorder, and so are the other arrays when one of
 * them can no longer be written. */
static void watch(recording *r, feed *feeds)
{
    bool told = false;
    while (!all_ended(feeds, r->n)) {
        struct timespec pause = {.tv_nsec = 20000000L};
        (void)nanosleep(&pause, NULL);
        if (!told && tg_cancel_check(r->c->cancel, NULL) == TG_CANCELLED) {
            tg_stream_cancel(r->stream);
            told = true;
        }
    }
    r->interrupted = tg_cancel_check(r->c->cancel, NULL) == TG_CANCELLED;
}

/* The first failure of a stream goes before that of a source. */
static tg_status judge(recording *r, const feed *feeds)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (feeds[i].status != TG_OK && feeds[i].status != TG_CANCELLED) {
            r->c->err = feeds[i].err;
            return feeds[i].status;
        }
    for (uint32_t i = 0; i < r->n && !r->source_failed; i++)
        if (feeds[i].input_failed) {
            r->c->err = feeds[i].err;
            r->source_failed = true;
        }
    return TG_OK;
}

static void join(feed *feeds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        (void)pthread_join(feeds[i].thread, NULL);
}

tg_status record_run(recording *r)
{
    feed feeds[RECORD_MAX_SOURCES] = {{0}};
    if (r->o->seconds > 0)
        tg_cancel_deadline(r->c->cancel, r->o->seconds);
    for (uint32_t i = 0; i < r->n; i++) {
        feeds[i] = (feed){.r = r, .i = i};
        int rc = pthread_create(&feeds[i].thread, NULL, feed_frames, &feeds[i]);
        if (rc != 0) {
            tg_cancel_request(r->c->cancel);
            tg_stream_cancel(r->stream);
            join(feeds, i);
            tg_status st = cli_fail(&r->c->err, TG_NO_MEMORY, "no thread for a source");
            r->c->err.sys = rc;
            return st;
        }
    }
    watch(r, feeds);
    join(feeds, r->n);
    return judge(r, feeds);
}
