/* Grids: "SIZE[/STEP]" over an array, in C order, the last of each row cut at the border. */
#include "region/roi_build.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <string.h>

/* "64" or "32,64" -> n numbers of 1 or more. */
static tg_status numbers(const char *text, size_t len, uint64_t *v, uint32_t *n, tg_error *err)
{
    char one[24];
    size_t at = 0;

    for (*n = 0; at <= len; (*n)++) {
        size_t end = at;
        while (end < len && text[end] != ',')
            end++;
        if (end - at >= sizeof one || *n == TG_ROI_MAX_AXES)
            return tg_fail(err, TG_INVALID, "grid '%.60s': want up to %d numbers", text,
                           TG_ROI_MAX_AXES);
        memcpy(one, text + at, end - at);
        one[end - at] = '\0';
        if (tg_parse_u64(one, &v[*n], NULL) != TG_OK || v[*n] == 0)
            return tg_fail(err, TG_INVALID,
                           "grid '%.60s': want SIZE or SIZE/STEP, numbers of 1 or more as "
                           "256 or 32,256,256",
                           text);
        at = end + 1;
    }
    return TG_OK;
}

/* One number is of the last two axes; else one an axis, of the last ones. */
static tg_status spread(uint64_t *v, uint32_t *n, uint32_t want, const char *text,
                        tg_error *err)
{
    if (*n == 1)
        for (uint32_t i = 1; i < want; i++)
            v[i] = v[0];
    else if (*n != want)
        return tg_fail(err, TG_INVALID, "grid '%.60s': %" PRIu32 " numbers and %" PRIu32, text,
                       want, *n);
    *n = want;
    return TG_OK;
}

typedef struct grid {
    uint32_t n, first; /* axes, the first of them in the array */
    uint64_t size[TG_ROI_MAX_AXES], step[TG_ROI_MAX_AXES], count[TG_ROI_MAX_AXES];
} grid;

static tg_status parse(grid *g, const char *text, const tg_shape *array, tg_error *err)
{
    const char *slash = strchr(text, '/');
    const size_t len = slash == NULL ? strlen(text) : (size_t)(slash - text);
    uint32_t n = 0;

    TG_TRY(numbers(text, len, g->size, &n, err));
    g->n = n > 1 ? n : array->ndim < 2 ? array->ndim : 2;
    TG_TRY(spread(g->size, &n, g->n, text, err));
    if (g->n > array->ndim || g->n == 0)
        return tg_fail(err, TG_INVALID, "grid '%.60s': the array has %" PRIu32 " dimensions",
                       text, array->ndim);
    g->first = array->ndim - g->n;
    memcpy(g->step, g->size, sizeof g->step);
    if (slash != NULL) {
        TG_TRY(numbers(slash + 1, strlen(slash + 1), g->step, &n, err));
        TG_TRY(spread(g->step, &n, g->n, text, err));
    }
    for (uint32_t i = 0; i < g->n; i++) {
        const uint64_t extent = array->n[g->first + i], size = g->size[i];
        const uint64_t rest = extent > size ? extent - size : 0;
        if (extent > (uint64_t)TG_ROI_EXACT)
            return tg_fail(err, TG_UNSUPPORTED, "an axis beyond 2^53");
        g->count[i] = extent == 0 ? 0 : 1 + rest / g->step[i] + (rest % g->step[i] != 0);
        /* A step beyond the size leaves gaps: the last may lie in one, and is left out. */
        while (g->count[i] > 1 && (g->count[i] - 1) * g->step[i] >= extent)
            g->count[i]--;
    }
    return TG_OK;
}

static tg_status add_all(tg_roi_builder *b, const grid *g, const tg_shape *array, tg_error *err)
{
    tg_box cells = {.shape = {.ndim = g->n}};
    double start[TG_ROI_MAX_AXES], length[TG_ROI_MAX_AXES];
    uint64_t at[TG_MAX_NDIM] = {0};

    for (uint32_t i = 0; i < g->n; i++) {
        cells.shape.n[i] = g->count[i];
        if (g->count[i] == 0)
            return TG_OK;
    }
    do {
        for (uint32_t i = 0; i < g->n; i++) {
            const uint64_t from = at[i] * g->step[i], left = array->n[g->first + i] - from;
            start[i] = (double)from;
            length[i] = (double)(left < g->size[i] ? left : g->size[i]);
        }
        TG_TRY(tg_roi_add(b, &(tg_roi_new){.start = start, .length = length}, err));
    } while (tg_box_next(&cells, at));
    return TG_OK;
}

tg_status tg_roi_grid(tg_roi_set *out, const char *text, const tg_shape *array,
                      const char *const *axes, size_t limit, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    grid g = {0};

    TG_TRY(parse(&g, text, array, err));
    tg_roi_begin(&b, "grid", "", NULL, limit);
    b.set.list.n_axes = g.n;
    for (uint32_t i = 0; i < g.n; i++) {
        const char *name = axes == NULL ? NULL : axes[g.first + i];
        if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof b.set.list.axes[0])
            return tg_fail(err, TG_UNSUPPORTED,
                           "axis %" PRIu32 " of the array has no name of 1 to %zu bytes",
                           g.first + i, sizeof b.set.list.axes[0] - 1);
        memcpy(b.set.list.axes[i], name, strlen(name) + 1);
    }
    TG_TRY(add_all(&b, &g, array, err));
    return tg_roi_finish(&b, out, err);
}
