/* Unwraps and judges frame numbers. Knows nothing of frames, rings or tables. */
#include "stream/sequence.h"

#include <inttypes.h>

enum {
    GIGE_LAST = 65535,            /* also the number of ids on the circle: 0 is never sent */
    GIGE_MAX_GAP = GIGE_LAST / 2, /* a larger step may as well have gone back */
};

void tg_sequence_init(tg_sequence *s, tg_id_kind ids, uint64_t max_gap, bool jumps)
{
    uint64_t gap = max_gap == 0 ? TG_DEFAULT_MAX_GAP : max_gap;
    if (ids == TG_ID_GIGE_16 && gap > GIGE_MAX_GAP)
        gap = GIGE_MAX_GAP;
    *s = (tg_sequence){.ids = ids, .max_gap = gap, .jumps = jumps};
}

void tg_sequence_resume(tg_sequence *s, uint64_t last)
{
    s->has_last = true;
    s->last = last;
    s->has_last_id = false;
    s->skipped = 0;
}

static tg_status too_far(tg_error *err)
{
    return tg_fail(err, TG_INVALID, "the sequence number does not fit 64 bits");
}

tg_status tg_sequence_skip(tg_sequence *s, uint64_t n, tg_error *err)
{
    uint64_t skipped = 0;
    if (__builtin_add_overflow(s->skipped, n, &skipped) ||
        (s->has_last && skipped >= UINT64_MAX - s->last))
        return too_far(err);
    s->skipped = skipped;
    return TG_OK;
}

uint64_t tg_sequence_peek(const tg_sequence *s)
{
    return s->has_last ? s->last + s->skipped + 1 : s->skipped;
}

/* The frame becomes the last one in order. */
static void advance(tg_sequence *s, uint64_t id, const tg_sequence_step *step)
{
    s->last = step->sequence;
    s->has_last = true;
    s->last_id = id;
    s->has_last_id = s->ids != TG_ID_NONE;
    s->skipped = 0;
}

/* The frame that has no frame with a number before it in this session. */
static tg_status first(tg_sequence *s, uint64_t id, tg_sequence_step *step, tg_error *err)
{
    if (s->has_last && s->last >= UINT64_MAX - 1 - s->skipped)
        return too_far(err);
    step->sequence = s->has_last || s->ids == TG_ID_NONE ? tg_sequence_peek(s) : id;
    step->event = s->has_last && s->ids != TG_ID_NONE ? TG_SEQUENCE_RESET : TG_SEQUENCE_OK;
    /* Frames skipped before the first one have numbers before its own. */
    if (!s->has_last && step->sequence < s->skipped)
        step->sequence = s->skipped;
    if (step->sequence == UINT64_MAX)
        return too_far(err); /* no room for a next one */
    advance(s, id, step);
    return TG_OK;
}

static tg_status forward(tg_sequence *s, uint64_t id, uint64_t ahead, tg_sequence_step *step,
                         tg_error *err)
{
    /* Numbers that were skipped on purpose are no gap. A source that did not count them is
     * moved on by what it is behind. */
    uint64_t least = s->skipped + 1;
    uint64_t by = ahead > least ? ahead : least;
    if (by > UINT64_MAX - 1 - s->last)
        return too_far(err);
    *step = (tg_sequence_step){TG_SEQUENCE_OK, s->last + by, by - least};
    advance(s, id, step);
    return TG_OK;
}

static tg_status reset(tg_sequence *s, uint64_t id, tg_sequence_step *step, tg_error *err)
{
    tg_status st = forward(s, id, 1, step, err);
    if (st == TG_OK)
        step->event = TG_SEQUENCE_RESET;
    return st;
}

/* Neither counts as the last one: what follows is measured from the last frame in order. */
static void marked(const tg_sequence *s, tg_sequence_event event, uint64_t behind,
                   tg_sequence_step *step)
{
    *step = (tg_sequence_step){event, behind > s->last ? 0 : s->last - behind, 0};
}

/* How far id is ahead of the last one, on the circle of its kind. */
static uint64_t steps_ahead(const tg_sequence *s, uint64_t id)
{
    if (s->ids == TG_ID_64)
        return id - s->last_id; /* mod 2^64 */
    return (id + GIGE_LAST - s->last_id % GIGE_LAST) % GIGE_LAST;
}

tg_status tg_sequence_next(tg_sequence *s, uint64_t id, tg_sequence_step *step, tg_error *err)
{
    tg_sequence_step found = {TG_SEQUENCE_OK, 0, 0};
    if (s->ids == TG_ID_GIGE_16 && id > GIGE_LAST)
        return tg_fail(err, TG_INVALID, "frame id %" PRIu64 ", want 16 bits", id);
    tg_status st = TG_OK;
    if (s->ids == TG_ID_NONE || !s->has_last_id) {
        st = first(s, id, &found, err);
    } else {
        bool is_64 = s->ids == TG_ID_64;
        uint64_t ahead = steps_ahead(s, id);
        bool after = is_64 && id > s->last_id; /* the circle of 2^64 is never gone around */
        if (ahead == 0)
            marked(s, TG_SEQUENCE_REPEATED, 0, &found);
        else if (ahead <= s->max_gap && (after || !is_64))
            st = forward(s, id, ahead, &found, err);
        else if (id <= 1)
            st = reset(s, id, &found, err);
        else if (after && s->jumps)
            st = forward(s, id, ahead, &found, err);
        else if (after)
            return tg_fail(err, TG_INVALID,
                           "frame id %" PRIu64 " after %" PRIu64 ": a jump of %" PRIu64
                           ", more than max-gap %" PRIu64,
                           id, s->last_id, ahead, s->max_gap);
        else
            marked(s, TG_SEQUENCE_BACKWARD, is_64 ? s->last_id - id : GIGE_LAST - ahead,
                   &found);
    }
    if (st == TG_OK)
        *step = found;
    return st;
}
