/* stream/tail.c - frames whose chunk is not full yet, made durable by themselves: raw, in a
 * file beside the journal. It has two places for each layer that can be open, and a layer takes
 * the one whose last owner is durable in its chunk, so nothing durable is ever written over. */
#include "base/crc32c.h"
#include "stream/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

/* One place of the file: k frames of one layer. */
typedef struct area {
    uint64_t layer;   /* TG_NO_LAYER: nobody's */
    uint64_t slots;   /* behind its last frame: durable in chunks, the place is free again */
    uint64_t written; /* places of the layer that are in the file */
    uint64_t logged;  /* and in the journal */
    uint32_t *sums;   /* k of them */
} area;

/* An open slab as it was at one moment. */
typedef struct open_slab {
    uint32_t slab, filled;
    uint64_t layer;
    area *area;
} open_slab;

struct tg_tail {
    tg_fd fd;
    char name[32];
    uint32_t n_areas;
    area *areas;
    open_slab *open;
    uint32_t n_open;
};

size_t tg_tail_bytes(const tg_layout *l)
{
    return sizeof(struct tg_tail) +
           (size_t)l->n_open * (2 * (sizeof(area) + (size_t)l->k * 4) + sizeof(open_slab));
}

static tg_status fail(const tg_lane *n, const char *what, tg_error *err)
{
    tg_status st = tg_fail_errno(err, "%s '%s/%s'", what, n->s->side.path, n->tail->name);
    tg_error_at(err, n->tail->name, TG_NO_OFFSET);
    return st;
}

static tg_status make_areas(struct tg_tail *t, uint64_t k, tg_error *err)
{
    for (uint32_t i = 0; i < t->n_areas; i++) {
        t->areas[i].layer = TG_NO_LAYER;
        t->areas[i].sums = tg_alloc_array((size_t)k, sizeof *t->areas[i].sums);
        if (t->areas[i].sums == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for the tail file's sums");
    }
    return TG_OK;
}

/* Made when it is first needed: most recordings never have one. */
static tg_status make_tail(tg_lane *n, tg_error *err)
{
    struct tg_tail *t = tg_calloc(1, sizeof *t);

    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a tail file");
    n->tail = t;
    t->fd = -1;
    (void)snprintf(t->name, sizeof t->name, "tail-%" PRIu32, n->number);
    t->n_areas = 2 * (uint32_t)n->layout.n_open;
    t->areas = tg_calloc(t->n_areas, sizeof *t->areas);
    t->open = tg_calloc((size_t)n->layout.n_open, sizeof *t->open);
    if (t->areas == NULL || t->open == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a tail file");
    return make_areas(t, n->layout.k, err);
}

static tg_status open_tail(tg_lane *n, tg_error *err)
{
    tg_status st = n->tail == NULL ? make_tail(n, err) : TG_OK;
    if (st != TG_OK) {
        tg_tail_free(n); /* the next commit tries again: not with half of it */
        return st;
    }
    if (n->tail->fd >= 0)
        return TG_OK;
    n->tail->fd = tg_sys_open(n->s->side.dir, n->tail->name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (n->tail->fd < 0)
        return fail(n, "make", err);
    return tg_dir_sync(n->s->side.dir, n->s->side.path, err);
}

void tg_tail_free(tg_lane *n)
{
    struct tg_tail *t = n->tail;

    if (t == NULL)
        return;
    tg_fd_auto(&t->fd);
    for (uint32_t i = 0; t->areas != NULL && i < t->n_areas; i++)
        tg_free(t->areas[i].sums);
    tg_free(t->areas);
    tg_free(t->open);
    tg_free(t);
    n->tail = NULL;
}

/* --- What is open now ------------------------------------------------------------------ */

/* False: layers are under way, or nothing is open. The slabs are pinned, and will not be
 * dropped any more. */
static bool look_at_open(tg_lane *n, tg_mark *mark, uint64_t *delta)
{
    struct tg_tail *t = n->tail;
    TG_LOCKED(&n->ring.lock);

    t->n_open = 0;
    if (!tg_ring_is_idle(&n->ring) || !tg_ring_any_frames(&n->ring, n->open, n->layout.n_open))
        return false;
    *mark = tg_ring_settled(&n->ring, n->ring.head);
    *delta = n->ring.shift * n->ring.layer_slots;
    for (uint64_t i = 0; i < n->layout.n_open; i++) {
        if (n->open[i] == TG_NO_SLAB || n->ring.slabs[n->open[i]].frames == 0)
            continue;
        tg_slab *s = &n->ring.slabs[n->open[i]];
        tg_ring_pin(&n->ring, n->open[i]);
        s->tailed = true;
        t->open[t->n_open++] = (open_slab){
            .slab = n->open[i], .filled = s->filled, .layer = s->layer - n->ring.shift};
    }
    return true;
}

static area *find_area(tg_lane *n, uint64_t layer)
{
    struct tg_tail *t = n->tail;
    area *found = NULL;

    for (uint32_t i = 0; i < t->n_areas; i++) {
        area *a = &t->areas[i];
        if (a->layer == layer)
            return a;
        if (found == NULL && (a->layer == TG_NO_LAYER || a->slots <= n->in_chunks.slots))
            found = a;
    }
    if (found != NULL)
        *found = (area){.layer = layer, .sums = found->sums};
    return found;
}

/* --- Writing ----------------------------------------------------------------------------- */

static uint64_t frame_offset(const tg_lane *n, const area *a, uint64_t place)
{
    uint64_t i = (uint64_t)(a - n->tail->areas);
    return (i * n->layout.k + place) * n->layout.plane[0].frame_bytes;
}

static tg_status write_frames(tg_lane *n, open_slab *o, tg_error *err)
{
    const tg_plane *p = &n->layout.plane[0];
    const uint8_t *slab = n->planes[0] + (size_t)o->slab * p->layer_bytes;
    area *a = o->area;

    for (; a->written < o->filled; a->written++) {
        if (n->ring.slabs[o->slab].real[a->written] == 0)
            continue;
        tg_place_read(&n->layout, p, slab, a->written, n->tail_frame);
        a->sums[a->written] = tg_crc32c(0, n->tail_frame, p->frame_bytes);
        TG_TRY(tg_fd_write_at(n->tail->fd, n->tail_frame, p->frame_bytes,
                              frame_offset(n, a, a->written), n->tail->name, err));
    }
    return TG_OK;
}

static tg_status log_frames(tg_lane *n, open_slab *o, tg_error *err)
{
    area *a = o->area;

    for (; a->logged < a->written; a->logged++) {
        if (n->ring.slabs[o->slab].real[a->logged] == 0)
            continue;
        uint64_t slot = tg_layout_slot_in_layer(&n->layout, o->layer, a->logged);
        tg_record_tail r = {.lane = n->number,
                            .sum = a->sums[a->logged],
                            .slot = slot,
                            .layer = o->layer,
                            .place = a->logged,
                            .offset = frame_offset(n, a, a->logged),
                            .nbytes = n->layout.plane[0].frame_bytes};
        TG_TRY(tg_record_tail_add(&n->s->log, &r, err));
        a->slots = slot + 1;
    }
    return TG_OK;
}

static tg_status write_all(tg_lane *n, tg_error *err)
{
    struct tg_tail *t = n->tail;

    for (uint32_t i = 0; i < t->n_open; i++) {
        t->open[i].area = find_area(n, t->open[i].layer);
        if (t->open[i].area == NULL)
            return TG_BUSY; /* both places hold what no chunk has yet: at the next commit */
        TG_TRY(write_frames(n, &t->open[i], err));
    }
    return tg_sys_fdatasync(t->fd) == 0 ? TG_OK : fail(n, "sync", err);
}

static tg_status log_all(tg_lane *n, tg_mark mark, uint64_t delta, tg_error *err)
{
    TG_LOCKED_FOR_IO(&n->s->log.lock);

    /* The writer may have said meanwhile that these frames failed: they are not to come back
     * beside rows that say so. */
    if (atomic_load(&n->failed_to_write))
        return TG_BUSY;
    if (mark.rows > n->rows_logged)
        tg_mend_rows(n, n->rows_logged_end, mark.rows_end, delta, false);
    TG_TRY(tg_log_rows(n, mark, err));
    for (uint32_t i = 0; i < n->tail->n_open; i++)
        TG_TRY(log_frames(n, &n->tail->open[i], err));
    return TG_OK;
}

tg_status tg_tail_write(tg_lane *n, tg_mark *mark, tg_error *err)
{
    tg_mark now;
    uint64_t delta;

    if (n->layout.k == 1)
        return TG_OK; /* every frame fills its chunk */
    TG_TRY(open_tail(n, err));
    if (!look_at_open(n, &now, &delta))
        return TG_OK;
    tg_status st = write_all(n, err);
    if (st == TG_OK)
        st = log_all(n, now, delta, err);
    for (uint32_t i = 0; i < n->tail->n_open; i++)
        tg_ring_unpin(&n->ring, n->tail->open[i].slab);
    if (st == TG_BUSY)
        return TG_OK;
    if (st == TG_OK)
        *mark = now;
    return st;
}
