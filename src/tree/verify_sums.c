/* verify: each frame's pixels against the frame table's CRC-32C, in parallel, runs
 * of frames at a time. A frame that cannot be read was told with its chunk. */
#include "tree/verify_frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 4096 }; /* of the table, held at a time */
#define RUN_BYTES ((size_t)8 << 20)

typedef struct sums {
    verify_job *job;
    const verify_frames *f;
    verify_layout layout;
    uint64_t fastest;  /* frames along the fastest outer dimension */
    uint64_t run;      /* most frames of one read */
    uint64_t reserved; /* bytes of an item */
    /* The block of rows that is being handed out. */
    uint64_t first_row, n_rows, at;
    int64_t index[ROWS];
    uint32_t crc[ROWS];
} sums;

/* Frames that lie one behind the other. */
typedef struct run {
    sums *s;
    uint64_t first, n, row; /* frame and row of the first */
    uint64_t ok, bad;
    uint64_t bad_frame; /* the first bad one */
    uint32_t got, want;
    uint8_t *frames;
    uint32_t crc[]; /* of each */
} run;

static void free_run(run *r)
{
    tg_budget_release(tg_runtime_budget(r->s->job->rt), r->s->reserved);
    tg_free(r->frames);
    tg_free(r);
}

/* --- Handing out ---------------------------------------------------------------- */

static tg_status next_block(sums *s, tg_error *err)
{
    s->first_row += s->n_rows;
    s->n_rows = s->f->rows - s->first_row < ROWS ? s->f->rows - s->first_row : ROWS;
    s->at = 0;
    if (s->n_rows == 0)
        return TG_OK;
    TG_TRY(tg_array_read(s->f->index, &s->first_row, &s->n_rows, s->index, NULL, s->job->cancel,
                         err));
    return tg_array_read(s->f->crc, &s->first_row, &s->n_rows, s->crc, NULL, s->job->cancel,
                         err);
}

static bool has_frame(const sums *s, uint64_t row)
{
    return s->index[row] >= 0 && (uint64_t)s->index[row] < s->layout.n_frames;
}

static uint64_t run_length(const sums *s)
{
    const uint64_t first = (uint64_t)s->index[s->at];
    uint64_t n = 1;

    while (n < s->run && s->at + n < s->n_rows && has_frame(s, s->at + n) &&
           (uint64_t)s->index[s->at + n] == first + n && (first + n) % s->fastest != 0)
        n++;
    return n;
}

static tg_status next_run(void *user, void **item, tg_error *err)
{
    sums *s = user;
    tg_budget *budget = tg_runtime_budget(s->job->rt);

    for (;;) {
        while (s->at < s->n_rows && !has_frame(s, s->at))
            s->at++;
        if (s->at < s->n_rows)
            break;
        TG_TRY(next_block(s, err));
        if (s->n_rows == 0)
            return TG_CLOSED;
    }
    TG_TRY(tg_budget_wait(budget, s->reserved, 0, "verifying frames", s->job->cancel, err));
    const uint64_t n = run_length(s);
    run *r = tg_calloc(1, sizeof *r + (size_t)n * sizeof r->crc[0]);
    if (r == NULL) {
        tg_budget_release(budget, s->reserved);
        return tg_fail(err, TG_NO_MEMORY, "frames to verify");
    }
    r->s = s;
    r->first = (uint64_t)s->index[s->at];
    r->n = n;
    r->row = s->first_row + s->at;
    memcpy(r->crc, s->crc + s->at, (size_t)n * sizeof r->crc[0]);
    s->at += n;
    *item = r;
    return TG_OK;
}

/* --- Work and fold ----------------------------------------------------------------- */

static tg_status check_run(void *user, void *item, uint32_t worker, tg_error *err)
{
    run *r = item;
    const size_t bytes = r->s->layout.frame_bytes;
    tg_error why = {0};

    (void)user;
    (void)worker;
    r->frames = tg_alloc_array((size_t)r->n, bytes);
    if (r->frames == NULL)
        return tg_fail(err, TG_NO_MEMORY, "frames to verify");
    tg_status st = verify_read_frames(r->s->f->image, &r->s->layout, r->first, r->n, r->frames,
                                      r->s->job->cancel, &why);
    if (verify_is_finding(st))
        return TG_OK;
    if (st != TG_OK) {
        if (err != NULL)
            *err = why;
        return st;
    }
    for (uint64_t i = 0; i < r->n; i++) {
        uint32_t got = verify_frame_crc(r->s->f->image->meta->info.dtype,
                                        r->frames + (size_t)i * bytes, bytes);
        r->ok += got == r->crc[i];
        r->bad += got != r->crc[i];
        if (got != r->crc[i] && r->bad == 1) {
            r->bad_frame = i;
            r->got = got;
            r->want = r->crc[i];
        }
    }
    tg_free(tg_steal(r->frames));
    return TG_OK;
}

static tg_status fold(void *user, void *item, tg_error *err)
{
    sums *s = user;
    run *r = item;
    verify_job *j = s->job;
    tg_error why = {0};
    char what[80];

    (void)err;
    if (r->bad > 0) {
        (void)snprintf(what, sizeof what, "frame %" PRIu64 ", row %" PRIu64,
                       r->first + r->bad_frame, r->row + r->bad_frame);
        (void)tg_fail(&why, TG_CORRUPT,
                      "array '%.200s', frame %" PRIu64 ": crc32c is %08" PRIx32
                      ", the frame table says %08" PRIx32,
                      s->f->image->path, r->first + r->bad_frame, r->got, r->want);
        verify_bad(j, s->f->image->path, what, &why);
        j->result.bad += r->bad - 1;
    }
    /* Chunks with a checksum of their own have been counted. */
    if (!tg_chain_detects_damage(s->f->image->meta->chain))
        j->result.ok += r->ok;
    tg_reporter_add(j->reporter, r->n, 0);
    free_run(r);
    return TG_OK;
}

static void drop(void *user, void *item)
{
    (void)user;
    free_run(item);
}

/* --- Which layout -------------------------------------------------------------------- */

/* Is the first frame with pixels what the table says, if the image has this layout? */
static tg_status try_layout(sums *s, const verify_layout *l, bool *fits, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) frame = NULL;
    uint64_t row = 0;

    *fits = false;
    while (row < s->n_rows && (s->index[row] < 0 || (uint64_t)s->index[row] >= l->n_frames))
        row++;
    if (row == s->n_rows)
        return TG_OK;
    frame = tg_alloc(l->frame_bytes);
    if (frame == NULL)
        return tg_fail(err, TG_NO_MEMORY, "frame to verify");
    tg_status st = verify_read_frames(s->f->image, l, (uint64_t)s->index[row], 1, frame,
                                      s->job->cancel, err);
    if (st != TG_OK)
        return verify_is_finding(st) ? TG_OK : st;
    *fits =
        verify_frame_crc(s->f->image->meta->info.dtype, frame, l->frame_bytes) == s->crc[row];
    return TG_OK;
}

static tg_status choose_layout(sums *s, const verify_layout *l, uint32_t n, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(s->job->rt);
    bool fits = false;

    s->layout = l[0];
    TG_TRY(next_block(s, err));
    for (uint32_t i = 0; n > 1 && i < n && !fits; i++) {
        uint64_t bytes = tg_add_bytes(l[i].frame_bytes, s->f->image->worst_bytes);
        TG_TRY(tg_budget_wait(budget, bytes, 0, "verifying a frame", s->job->cancel, err));
        tg_status st = try_layout(s, &l[i], &fits, err);
        tg_budget_release(budget, bytes);
        TG_TRY(st);
        if (fits)
            s->layout = l[i];
    }
    return TG_OK;
}

static void plan_runs(sums *s)
{
    const tg_array_info *info = &s->f->image->meta->info;
    const verify_layout *l = &s->layout;
    const uint64_t most = RUN_BYTES / l->frame_bytes;

    s->run = most == 0 ? 1 : most > ROWS ? ROWS : most;
    s->fastest = 1;
    if (info->ndim > l->frame_dims)
        s->fastest = info->shape[l->first == 0 ? info->ndim - 1 : l->first - 1];
    s->reserved = tg_add_bytes(
        tg_mul_bytes((size_t)s->run, l->frame_bytes),
        tg_add_bytes(s->f->image->worst_bytes, sizeof(run) + ROWS * sizeof(uint32_t)));
}

tg_status verify_frames_run(verify_job *j, const verify_frames *f, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_calloc(1, sizeof(sums));
    verify_layout layouts[VERIFY_LAYOUTS];
    sums *s = room;
    const uint32_t n = verify_layouts(f->image, layouts);

    if (n == 0)
        return TG_OK;
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "frames to verify");
    s->job = j;
    s->f = f;
    TG_TRY(choose_layout(s, layouts, n, err));
    plan_runs(s);
    const tg_pipeline pipeline = {.user = s,
                                  .next = next_run,
                                  .work = check_run,
                                  .sink = fold,
                                  .drop = drop,
                                  .depth = 2 * tg_pool_width(tg_runtime_pool(j->rt))};
    return tg_pipeline_run(tg_runtime_pool(j->rt), &pipeline, j->cancel, err);
}
