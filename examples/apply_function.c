/* A program with a function of its own over the regions of an array:
 *
 *     cc -O2 -o flatten apply_function.c $(pkg-config --cflags --libs tidegate)
 *     ./flatten raw.zarr/0 flat.zarr grid:256
 *
 * From each region of IN, an array or image of uint16, it takes away what is darkest in it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidegate/tidegate.h>

/* Called by several threads at once, each with a region of its own; `user` is ours. Views have
 * strides, so that it works for any number of dimensions: index counts as an odometer does. */
static uint16_t *item(const tg_region_view *v, const uint64_t *index)
{
    char *at = v->data;

    for (uint32_t d = 0; d < v->ndim; d++)
        at += (int64_t)index[d] * v->strides[d];
    return (uint16_t *)at;
}

static int next(const tg_region_view *v, uint64_t *index)
{
    for (uint32_t d = v->ndim; d-- > 0;) {
        if (++index[d] < v->shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

static int flatten(const tg_region_call *call, void *user)
{
    uint64_t index[TG_MAX_NDIM] = {0};
    uint16_t darkest = UINT16_MAX;

    (void)user;
    if (call->in.dtype.kind != TG_DT_UINT || call->in.dtype.size != 2) {
        (void)snprintf(call->message, 256, "want items of uint16");
        return 1;
    }
    do {
        const uint16_t v = *item(&call->in, index);
        darkest = v < darkest ? v : darkest;
    } while (next(&call->in, index));
    do
        *item(&call->out, index) = (uint16_t)(*item(&call->in, index) - darkest);
    while (next(&call->out, index));
    return 0;
}

static void quit(const tg_error *err)
{
    (void)fprintf(stderr, "apply_function: %s\n", err->msg);
    exit(1);
}

int main(int argc, char **argv)
{
    tg_error err = {0};
    tg_runtime *rt = NULL;
    tg_store *in = NULL, *out = NULL;
    char *in_path = NULL, *out_path = NULL;
    tg_apply_options options = {.size = sizeof options, .fn = flatten};
    tg_apply_report report = {.size = sizeof report};

    if (argc != 4) {
        (void)fprintf(stderr, "usage: %s IN OUT REGIONS\n", argv[0]);
        return 2;
    }
    /* All of what follows stays below this, but for 16 MiB of code and stacks. */
    if (tg_runtime_new(&(tg_runtime_options){.size = sizeof(tg_runtime_options),
                                             .memory_bytes = (uint64_t)64 << 20},
                       &rt, &err) != TG_OK ||
        tg_store_open(argv[1],
                      &(tg_store_options){sizeof(tg_store_options), TG_STORE_READ, 0, 0}, &in,
                      &in_path, &err) != TG_OK ||
        tg_store_open(
            argv[2],
            &(tg_store_options){sizeof(tg_store_options), TG_STORE_OPEN_OR_CREATE, 0, 0}, &out,
            &out_path, &err) != TG_OK)
        quit(&err);
    options.in_store = in;
    options.in_path = in_path;
    options.out_store = out;
    options.out_path = out_path;
    options.rois = argv[3];
    if (tg_apply(rt, &options, &report, NULL, &err) != TG_OK ||
        tg_store_close(out, &err) != TG_OK)
        quit(&err);
    printf("%" PRIu64 " regions, %" PRIu64 " units written\n", report.calls,
           report.units_written);
    tg_store_free(in);
    tg_store_free(out);
    tg_free(in_path);
    tg_free(out_path);
    tg_runtime_free(rt);
    return 0;
}
