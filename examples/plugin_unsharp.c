/* A plug-in for `tidegate apply`: what is brighter than its surroundings, for images of uint16.
 *
 *     cc -shared -fPIC -O2 -o unsharp.so plugin_unsharp.c
 *     tidegate apply run.zarr/0 sharp.zarr --rois grid:256 --plugin ./unsharp.so
 *     tidegate apply run.zarr/0 --in-place --rois cells.json --policy user --plugin
 * ./unsharp.so
 *
 * A pixel becomes what it has above the mean of the 3x3 around it. It asks for one item of halo
 * itself, and its fold (--policy user) adds up what regions make of the pixels they share. */
#include <stdio.h>
#include <tidegate/plugin.h>

/* Item [y, x] of a view of two dimensions. */
static uint16_t *item(const tg_region_view *v, int64_t y, int64_t x)
{
    return (uint16_t *)((char *)v->data + y * v->strides[0] + x * v->strides[1]);
}

static int set_up(tg_plugin_setup *s, void **state)
{
    (void)state;
    if (s->ndim != 2 || s->in_dtype.kind != TG_DT_UINT || s->in_dtype.size != 2) {
        (void)snprintf(s->message, 256, "%u dimensions of %u bytes, want 2 of uint16", s->ndim,
                       s->in_dtype.size);
        return 1;
    }
    s->out_dtype = s->in_dtype;
    s->halo[0] = s->halo[1] = 1;
    return 0;
}

static uint32_t mean_around(const tg_region_view *in, int64_t y, int64_t x)
{
    uint32_t sum = 0, n = 0;

    /* At the rim of the array there is no halo. */
    for (int64_t i = y - 1; i <= y + 1; i++)
        for (int64_t k = x - 1; k <= x + 1; k++)
            if (i >= 0 && k >= 0 && i < (int64_t)in->shape[0] && k < (int64_t)in->shape[1]) {
                sum += *item(in, i, k);
                n++;
            }
    return sum / n;
}

static int call(const tg_region_call *c, void *state)
{
    (void)state;
    for (int64_t y = 0; y < (int64_t)c->out.shape[0]; y++)
        for (int64_t x = 0; x < (int64_t)c->out.shape[1]; x++) {
            const int64_t iy = y + (int64_t)c->before[0], ix = x + (int64_t)c->before[1];
            const uint32_t here = *item(&c->in, iy, ix), mean = mean_around(&c->in, iy, ix);
            *item(&c->out, y, x) = (uint16_t)(here > mean ? here - mean : 0);
        }
    return 0;
}

static int fold(const tg_region_view *base, const tg_region_view *patch, uint64_t roi,
                void *state)
{
    (void)roi;
    (void)state;
    for (int64_t y = 0; y < (int64_t)base->shape[0]; y++)
        for (int64_t x = 0; x < (int64_t)base->shape[1]; x++) {
            const uint32_t sum = (uint32_t)*item(base, y, x) + *item(patch, y, x);
            *item(base, y, x) = (uint16_t)(sum > 65535 ? 65535 : sum);
        }
    return 0;
}

const tg_plugin tg_plugin_main = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, set_up, call, fold, NULL};
