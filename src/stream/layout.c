/* stream/layout.c - the numbers behind stream/layout.h. Shards are cut along the order of
 * arrival, so that the one being written is always the only one. */
#include "stream/layout.h"

#include "base/auto.h"
#include "base/error.h"
#include "nd/nd.h"

#include <inttypes.h>
#include <string.h>

#define NO_LIMIT    UINT64_MAX
#define SMALL_FRAME ((uint64_t)256 << 10)
#define GATHER_TO   ((uint64_t)1 << 20)
#define SHARD_BYTES ((uint64_t)128 << 20)
#define LARGEST     ((uint64_t)1 << 46) /* bytes of one layer: products of two stay in range */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static tg_status checked_mul(uint64_t a, uint64_t b, const char *what, uint64_t *out,
                             tg_error *err)
{
    if (__builtin_mul_overflow(a, b, out) || *out > LARGEST)
        return tg_fail(err, TG_INVALID, "%s: %" PRIu64 " x %" PRIu64 " is too large", what, a,
                       b);
    return TG_OK;
}

/* --- Dimensions ---------------------------------------------------------- */

static tg_status read_axes(tg_layout *l, const tg_stream_array *a, tg_error *err)
{
    uint32_t seen = 0;

    if (a->dims == NULL) {
        l->n_axes = 1;
        l->extent[0] = NO_LIMIT;
        return TG_OK;
    }
    if (a->n_dims > TG_STREAM_DIMS)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " outer dimensions, at most %d", a->n_dims,
                       TG_STREAM_DIMS);
    l->n_axes = a->n_dims;
    for (uint32_t d = 0; d < a->n_dims; d++) {
        const tg_stream_dim *dim = &a->dims[d];
        if (dim->arrival >= a->n_dims || (seen >> dim->arrival & 1) != 0)
            return tg_fail(err, TG_INVALID,
                           "dimension '%s' arrives at place %" PRIu64
                           ": want each place from 0 to %" PRIu32 " once",
                           dim->name == NULL ? "" : dim->name, dim->arrival, a->n_dims - 1);
        seen |= 1u << dim->arrival;
        l->order[dim->arrival] = d;
        l->extent[d] = dim->extent == 0 ? NO_LIMIT : dim->extent;
        if (dim->extent == 0 && (d != 0 || dim->arrival != 0))
            return tg_fail(err, TG_INVALID,
                           "dimension '%s' has no limit: only the first can be so, and it must "
                           "arrive as the slowest",
                           dim->name == NULL ? "" : dim->name);
    }
    return TG_OK;
}

/* The axes hold as many frames as the plate says that a field has. */
static tg_status fit_frames(tg_layout *l, uint64_t frames, tg_error *err)
{
    uint64_t others = 1;

    for (uint32_t d = 0; d < l->n_axes; d++)
        if (l->extent[d] != NO_LIMIT)
            TG_TRY(checked_mul(others, l->extent[d], "frames of a field", &others, err));
    bool endless = l->extent[0] == NO_LIMIT;
    if (frames == 0)
        return TG_OK; /* as many as the axes hold: the plate has its loop of frames first */
    if (endless ? frames % others != 0 : frames != others)
        return tg_fail(err, TG_INVALID,
                       "plate: %" PRIu64 " frames a field, but its dimensions hold %s%" PRIu64,
                       frames, endless ? "multiples of " : "", others);
    if (endless)
        l->extent[0] = frames / others;
    return TG_OK;
}

/* Well and field as two more dimensions, in the plate's order of arrival. */
static tg_status add_plate(tg_layout *l, const tg_ome_plate *plate, tg_error *err)
{
    uint32_t order[TG_STREAM_DIMS], n = 0;

    l->n_images = tg_ome_plate_images(plate);
    if (l->n_images > TG_PLATE_IMAGES)
        return tg_fail(err, TG_INVALID, "plate: %" PRIu64 " fields in all, at most %d",
                       l->n_images, TG_PLATE_IMAGES);
    if (l->n_axes == 0 || l->n_axes + 2 > TG_STREAM_DIMS)
        return tg_fail(err, TG_UNSUPPORTED,
                       "the fields of a plate have 1 to %d outer dimensions, not %" PRIu32,
                       TG_STREAM_DIMS - 2, l->n_axes);
    TG_TRY(fit_frames(l, tg_ome_plate_frames(plate), err));
    for (uint32_t i = 0; i < TG_OME_PLATE_LOOPS; i++) {
        tg_ome_loop loop = tg_ome_plate_loop(plate, i);
        if (loop != TG_OME_LOOP_FRAME)
            order[n++] = l->n_axes + (loop == TG_OME_LOOP_FIELD);
        for (uint32_t j = 0; loop == TG_OME_LOOP_FRAME && j < l->n_axes; j++)
            order[n++] = l->order[j];
    }
    memcpy(l->order, order, n * sizeof order[0]);
    l->n_dims = n;
    l->extent[l->n_axes] = tg_ome_plate_wells(plate);
    l->extent[l->n_axes + 1] = tg_ome_plate_fields(plate);
    return TG_OK;
}

static tg_status read_dims(tg_layout *l, const tg_stream_array *a, const tg_ome_plate *plate,
                           tg_error *err)
{
    TG_TRY(read_axes(l, a, err));
    l->n_dims = l->n_axes;
    l->n_images = 1;
    l->slow = l->order[0];
    return plate == NULL ? TG_OK : add_plate(l, plate, err);
}

/* Does a frame (or by layers: a chunk) of another field come between two of one? */
static bool fields_take_turns(const tg_layout *l, const uint64_t *extent)
{
    for (uint32_t i = l->n_dims; i-- > 0;)
        if (extent[l->order[i]] > 1)
            return l->order[i] >= l->n_axes;
    return false;
}

static bool arrives_fastest(const tg_layout *l, uint32_t dim)
{
    return l->n_dims > 0 && l->order[l->n_dims - 1] == dim;
}

static tg_status choose_k(tg_layout *l, const tg_stream_array *a, uint64_t frame_bytes,
                          tg_error *err)
{
    uint64_t most = l->n_dims == 0 ? 1 : l->extent[l->n_axes - 1];

    l->k = a->chunk_frames;
    if (l->k == 0)
        l->k = frame_bytes < SMALL_FRAME && l->n_dims > 0 && arrives_fastest(l, l->n_axes - 1)
                   ? min_u64(ceil_div(GATHER_TO, frame_bytes), most)
                   : 1;
    if (l->k > most)
        return tg_fail(err, TG_INVALID,
                       "%" PRIu64 " frames per chunk, but the fastest dimension has %" PRIu64,
                       l->k, most);
    return TG_OK;
}

/* Slots, layers, and how many layers are open at once. */
static tg_status count_layers(tg_layout *l, tg_error *err)
{
    uint32_t f = l->n_axes - 1;

    l->n_slots = 1;
    l->n_open = 1;
    for (uint32_t d = 0; d < l->n_dims; d++) {
        l->layers[d] =
            l->extent[d] == NO_LIMIT || d != f ? l->extent[d] : ceil_div(l->extent[d], l->k);
        if (l->extent[d] == NO_LIMIT)
            l->n_slots = NO_LIMIT;
        else if (l->n_slots != NO_LIMIT &&
                 (__builtin_mul_overflow(l->n_slots, l->extent[d], &l->n_slots) ||
                  l->n_slots > (uint64_t)1 << 62))
            return tg_fail(err, TG_INVALID, "outer dimensions hold more than 2^62 frames");
    }
    for (uint32_t i = l->n_dims; l->k > 1 && i-- > 0 && l->order[i] != f;)
        TG_TRY(checked_mul(l->n_open, l->extent[l->order[i]], "chunks open at once", &l->n_open,
                           err));
    return TG_OK;
}

/* --- Planes -------------------------------------------------------------- */

static tg_status tile_extent(uint64_t want, uint64_t level0, uint64_t extent, const char *what,
                             uint64_t *tile, tg_error *err)
{
    if (want > level0)
        return tg_fail(err, TG_INVALID,
                       "tile %s %" PRIu64 " is larger than the frame's %" PRIu64, what, want,
                       level0);
    *tile = want == 0 ? extent : min_u64(want, extent);
    return TG_OK;
}

static tg_status plane_bytes(const tg_layout *l, tg_plane *p, tg_error *err)
{
    uint64_t n, stride, tiles;

    TG_TRY(checked_mul(p->height * l->dtype.size, p->width, "frame", &n, err));
    p->frame_bytes = (size_t)n;
    TG_TRY(checked_mul(p->tile_h * l->dtype.size, p->tile_w, "tile", &n, err));
    p->tile_bytes = (size_t)n;
    TG_TRY(checked_mul(n, l->k, "chunk", &n, err));
    p->chunk_bytes = (size_t)n;
    p->stored_bytes = p->chunk_bytes + (!l->encoded && l->checksum && l->format == 3 ? 4 : 0);
    tiles = p->tiles_y * p->tiles_x;
    if (tiles > UINT32_MAX)
        return tg_fail(err, TG_INVALID, "%" PRIu64 " tiles a frame are too many", tiles);
    p->n_tiles = (uint32_t)tiles;

    stride = p->stored_bytes;
    if (p->n_tiles == 1 || p->chunk_bytes >= SMALL_FRAME || !l->sharded)
        stride = ceil_div(stride, TG_BLOCK) * TG_BLOCK;
    p->chunk_stride = (size_t)stride;
    TG_TRY(checked_mul(stride, tiles, "chunks of a layer", &n, err));
    p->layer_bytes = (size_t)(ceil_div(n, TG_BLOCK) * TG_BLOCK);
    uint64_t used = p->stored_bytes * tiles;
    p->staged = l->encoded || p->layer_bytes - used > used / 16;
    return TG_OK;
}

static tg_status make_planes(tg_layout *l, const tg_stream_array *a, tg_error *err)
{
    uint64_t h = a->height == 0 ? 1 : a->height;

    if (a->pyramid_levels > TG_PYRAMID_MAX)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " levels, at most %d", a->pyramid_levels,
                       TG_PYRAMID_MAX);
    if (a->pyramid_levels > 0)
        TG_TRY(tg_pyramid_init(&l->pyramid, h, a->width, a->dtype, a->pyramid_levels,
                               a->pyramid_method, err));
    l->n_planes = a->pyramid_levels + 1;
    for (uint32_t i = 0; i < l->n_planes; i++) {
        tg_plane *p = &l->plane[i];
        p->height = i == 0 ? h : l->pyramid.height[i];
        p->width = i == 0 ? a->width : l->pyramid.width[i];
        TG_TRY(tile_extent(a->tile_height, h, p->height, "height", &p->tile_h, err));
        TG_TRY(tile_extent(a->tile_width, a->width, p->width, "width", &p->tile_w, err));
        p->tiles_y = ceil_div(p->height, p->tile_h);
        p->tiles_x = ceil_div(p->width, p->tile_w);
        TG_TRY(plane_bytes(l, p, err));
    }
    return TG_OK;
}

/* --- Shards -------------------------------------------------------------- */

/* Spread `want` layers over the dimensions, fastest in arrival first. */
static uint64_t spread_layers(tg_layout *l, uint64_t want)
{
    uint64_t got = 1;

    for (uint32_t d = 0; d < TG_STREAM_DIMS; d++)
        l->shard_layers[d] = 1;
    for (uint32_t i = l->n_dims; i-- > 0;) {
        uint32_t d = l->order[i];
        uint64_t m = d < l->n_axes ? min_u64(want / got, l->layers[d]) : 1; /* one array's */
        l->shard_layers[d] = m < 1 ? 1 : m;
        got *= l->shard_layers[d];
        if (m < l->layers[d])
            break;
    }
    return got;
}

static tg_status shard_layers_wanted(const tg_layout *l, const tg_stream_array *a,
                                     uint64_t *want, tg_error *err)
{
    uint64_t target = a->shard_bytes == 0 ? SHARD_BYTES : a->shard_bytes;
    uint64_t bytes = (uint64_t)l->plane[0].chunk_bytes * l->plane[0].n_tiles;

    *want = target / bytes < 1 ? 1 : target / bytes;
    if (a->shard_frames != 0) {
        *want = a->shard_frames / l->k;
        if (a->shard_frames % l->k != 0)
            return tg_fail(err, TG_INVALID,
                           "shards of %" PRIu64 " frames are no multiple of the %" PRIu64
                           " frames of a chunk",
                           a->shard_frames, l->k);
    }
    if (!l->live)
        return TG_OK;
    uint64_t most = TG_LIVE_CHUNKS / l->plane[0].n_tiles;
    if (most == 0 || (a->shard_frames != 0 && *want > most))
        return tg_fail(err, TG_INVALID,
                       "live shards have at most %d chunks, and these would have %" PRIu64,
                       TG_LIVE_CHUNKS, (most == 0 ? 1 : *want) * l->plane[0].n_tiles);
    *want = min_u64(*want, most);
    return TG_OK;
}

static tg_status choose_shards(tg_layout *l, const tg_stream_array *a, tg_error *err)
{
    uint64_t want = 1;

    if (l->sharded) {
        TG_TRY(shard_layers_wanted(l, a, &want, err));
        l->per_shard = spread_layers(l, want);
        if (a->shard_frames != 0 && l->per_shard != want)
            return tg_fail(err, TG_INVALID,
                           "shards of %" PRIu64 " frames do not fit the dimensions: %" PRIu64
                           " would",
                           a->shard_frames, l->per_shard * l->k);
    } else {
        l->per_shard = spread_layers(l, 1);
    }
    for (uint32_t i = 0; i < l->n_planes; i++)
        TG_TRY(checked_mul(l->sharded ? l->per_shard : 1, l->sharded ? l->plane[i].n_tiles : 1,
                           "chunks of a shard", &l->plane[i].shard_chunks, err));
    return TG_OK;
}

static tg_status check_options(const tg_stream_array *a, int format, bool zip, tg_error *err)
{
    bool wants_shards = a->shard_bytes != 0 || a->shard_frames != 0 || a->live;

    if (a->width == 0)
        return tg_fail(err, TG_INVALID, "frames of %" PRIu64 " x 0 items have no pixels",
                       a->height);
    if (a->dtype.size == 0 || a->dtype.kind == TG_DT_STRING || a->dtype.kind == TG_DT_NONE)
        return tg_fail(err, TG_INVALID, "pixels cannot be strings");
    if (a->shard_bytes != 0 && a->shard_frames != 0)
        return tg_fail(err, TG_INVALID, "shards by bytes and by frames: choose one");
    if (wants_shards && a->no_shards)
        return tg_fail(err, TG_INVALID, "a shard size, and no shards: choose one");
    if (wants_shards && format == 2)
        return tg_fail(err, TG_UNSUPPORTED, "Zarr format 2 has no shards");
    if (wants_shards && zip)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a ZIP takes values whole: record it without shards, and make shards by "
                       "a copy");
    if (a->height == 0 && (a->tile_height > 1 || a->frame_axis_last))
        return tg_fail(err, TG_INVALID, "frames that are lines have no rows to tile");
    return TG_OK;
}

tg_status tg_layout_init(tg_layout *l, const tg_stream_array *a, const tg_ome_plate *plate,
                         int format, bool zip, tg_error *err)
{
    uint64_t frame;
    tg_layout made = {0};

    TG_TRY(check_options(a, format, zip, err));
    made.dtype = a->dtype;
    made.format = format;
    made.zip = zip;
    made.has_rows = a->height != 0;
    made.axis_last = a->frame_axis_last;
    made.checksum = !a->no_checksum;
    made.encoded = a->codec != NULL && strcmp(a->codec, "none") != 0 && a->codec[0] != '\0';
    made.live = a->live;
    TG_TRY(checked_mul(a->width, a->dtype.size, "frame", &frame, err));
    TG_TRY(checked_mul(a->height == 0 ? 1 : a->height, frame, "frame", &frame, err));
    TG_TRY(read_dims(&made, a, plate, err));
    made.sharded = format == 3 && !zip && !a->no_shards && made.n_dims > 0;
    if (made.live && !made.sharded)
        return tg_fail(err, TG_INVALID, "a single plane has no live shards");
    TG_TRY(choose_k(&made, a, frame, err));
    TG_TRY(count_layers(&made, err));
    if (made.k > 1 && fields_take_turns(&made, made.extent))
        return tg_fail(err, TG_UNSUPPORTED,
                       "the fields of this plate take turns: a chunk has one frame, not "
                       "%" PRIu64,
                       made.k);
    if (fields_take_turns(&made, made.layers) && a->shard_bytes == 0 && a->shard_frames == 0 &&
        !a->live)
        made.sharded = false; /* each would have one chunk */
    TG_TRY(make_planes(&made, a, err));
    TG_TRY(choose_shards(&made, a, err));
    *l = made;
    return TG_OK;
}

/* --- Coordinates --------------------------------------------------------- */

/* Mixed-radix digits of n in the order of arrival. The slowest digit takes what is left. */
static void digits(const tg_layout *l, const uint64_t *radix, uint64_t n, uint64_t *out)
{
    for (uint32_t i = l->n_dims; i-- > 0;) {
        uint32_t d = l->order[i];
        out[d] = i == 0 ? n : n % radix[d];
        n = i == 0 ? 0 : n / radix[d];
    }
}

static uint64_t undigits(const tg_layout *l, const uint64_t *radix, const uint64_t *in)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < l->n_dims; i++) {
        uint32_t d = l->order[i];
        n = i == 0 ? in[d] : n * radix[d] + in[d];
    }
    return n;
}

void tg_layout_coords(const tg_layout *l, uint64_t slot, uint64_t *coords)
{
    digits(l, l->extent, slot, coords);
}

uint64_t tg_layout_slot(const tg_layout *l, const uint64_t *coords)
{
    return undigits(l, l->extent, coords);
}

uint64_t tg_layout_index(const tg_layout *l, uint64_t slot)
{
    uint64_t c[TG_STREAM_DIMS], n = 0;

    digits(l, l->extent, slot, c);
    for (uint32_t d = 0; d < l->n_dims; d++)
        n = d == 0 ? c[0] : n * l->extent[d] + c[d];
    return n;
}

uint64_t tg_layout_slot_of_index(const tg_layout *l, uint64_t index)
{
    uint64_t c[TG_STREAM_DIMS];

    for (uint32_t d = l->n_dims; d-- > 0;) {
        c[d] = d == 0 ? index : index % l->extent[d];
        index = d == 0 ? 0 : index / l->extent[d];
    }
    return undigits(l, l->extent, c);
}

uint64_t tg_layout_layer(const tg_layout *l, uint64_t slot, uint64_t *place)
{
    uint64_t c[TG_STREAM_DIMS];
    uint32_t f = l->n_axes - 1;

    if (l->k == 1 || l->n_dims == 0) {
        *place = 0;
        return slot;
    }
    digits(l, l->extent, slot, c);
    *place = c[f] % l->k;
    c[f] /= l->k;
    return undigits(l, l->layers, c);
}

uint64_t tg_layout_slot_in_layer(const tg_layout *l, uint64_t layer, uint64_t place)
{
    uint64_t c[TG_STREAM_DIMS];
    uint32_t f = l->n_axes - 1;

    if (l->k == 1 || l->n_dims == 0)
        return layer;
    digits(l, l->layers, layer, c);
    c[f] = c[f] * l->k + place;
    return undigits(l, l->extent, c);
}

uint64_t tg_layout_layer_frames(const tg_layout *l, uint64_t layer)
{
    uint64_t c[TG_STREAM_DIMS];
    uint32_t f = l->n_axes - 1;

    if (l->k == 1 || l->n_dims == 0 || l->extent[f] == NO_LIMIT)
        return l->k;
    digits(l, l->layers, layer, c);
    return min_u64(l->k, l->extent[f] - c[f] * l->k);
}

uint64_t tg_layout_whole_layers(const tg_layout *l, uint64_t slots)
{
    uint64_t place, all = 1;

    if (l->k == 1 || l->n_dims == 0)
        return slots;
    if (l->n_slots != NO_LIMIT && slots >= l->n_slots) {
        for (uint32_t d = 0; d < l->n_dims; d++)
            all *= l->layers[d];
        return all;
    }
    /* Layers fill in order, so all below the one that the next slot falls into are whole, but
     * for those that are open beside it: these begin with the first slot of its row. */
    uint64_t layer = tg_layout_layer(l, slots, &place);
    if (l->n_open == 1)
        return layer;
    uint64_t first = layer - layer % l->n_open;
    return place == tg_layout_layer_frames(l, layer) - 1 ? layer : first;
}

uint64_t tg_layout_whole_slots(const tg_layout *l, uint64_t layers)
{
    if (l->k == 1 || l->n_dims == 0)
        return layers;
    return min_u64(tg_layout_slot_in_layer(l, layers - layers % l->n_open, 0), l->n_slots);
}

/* --- Shards and keys ----------------------------------------------------- */

static void layer_digits(const tg_layout *l, uint64_t layer, uint64_t *c)
{
    digits(l, l->layers, layer, c);
}

static void shard_radix(const tg_layout *l, uint64_t *radix)
{
    for (uint32_t d = 0; d < l->n_dims; d++)
        radix[d] =
            l->layers[d] == NO_LIMIT ? NO_LIMIT : ceil_div(l->layers[d], l->shard_layers[d]);
}

uint64_t tg_layout_shard(const tg_layout *l, uint64_t layer)
{
    uint64_t c[TG_STREAM_DIMS], radix[TG_STREAM_DIMS];

    layer_digits(l, layer, c);
    shard_radix(l, radix);
    for (uint32_t d = 0; d < l->n_dims; d++)
        c[d] /= l->shard_layers[d];
    return undigits(l, radix, c);
}

static void shard_coords(const tg_layout *l, uint64_t shard, uint64_t *c)
{
    uint64_t radix[TG_STREAM_DIMS];

    shard_radix(l, radix);
    digits(l, radix, shard, c);
}

void tg_layout_shard_range(const tg_layout *l, uint64_t shard, uint64_t *first, uint64_t *last)
{
    uint64_t c[TG_STREAM_DIMS], e[TG_STREAM_DIMS], n = 1;

    shard_coords(l, shard, c);
    for (uint32_t d = 0; d < l->n_dims; d++) {
        e[d] = c[d] * l->shard_layers[d];
        n *= l->layers[d] == NO_LIMIT ? l->shard_layers[d]
                                      : min_u64(l->shard_layers[d], l->layers[d] - e[d]);
    }
    *first = undigits(l, l->layers, e);
    *last = *first + n;
}

uint32_t tg_layout_axis(const tg_layout *l, uint32_t dim)
{
    return l->axis_last ? dim + (l->has_rows ? 2 : 1) : dim;
}

tg_frame_axes tg_layout_frame_axes(const tg_layout *l)
{
    return (tg_frame_axes){tg_layout_axis(l, 0), l->n_axes};
}

static uint32_t y_axis(const tg_layout *l)
{
    return l->axis_last ? 0 : l->n_axes;
}

void tg_layout_vectors_init(const tg_layout *l, uint32_t plane, tg_layout_vectors *v)
{
    const tg_plane *p = &l->plane[plane];
    uint32_t y = y_axis(l), x = l->has_rows ? y + 1 : y;

    *v = (tg_layout_vectors){.ndim = l->n_axes + (l->has_rows ? 2 : 1)};
    for (uint32_t d = 0; d < l->n_axes; d++) {
        uint32_t axis = tg_layout_axis(l, d);
        v->chunk[axis] = d == l->n_axes - 1 ? l->k : 1;
        v->shard[axis] = v->chunk[axis] * l->shard_layers[d];
    }
    if (l->has_rows) {
        v->shape[y] = p->height;
        v->chunk[y] = p->tile_h;
        v->shard[y] = p->tile_h * p->tiles_y;
    }
    v->shape[x] = p->width;
    v->chunk[x] = p->tile_w;
    v->shard[x] = p->tile_w * p->tiles_x;
    uint64_t outer[TG_STREAM_DIMS];
    tg_layout_shape(l, 0, false, outer);
    for (uint32_t d = 0; d < l->n_axes; d++)
        v->shape[tg_layout_axis(l, d)] = outer[d];
}

/* Frames of one unit of the slowest axis. */
static uint64_t unit_of(const tg_layout *l)
{
    uint64_t unit = 1;

    for (uint32_t d = 0; d < l->n_axes; d++)
        unit *= d == l->slow ? 1 : l->extent[d];
    return unit;
}

void tg_layout_shape(const tg_layout *l, uint64_t slots, bool up, uint64_t *outer)
{
    for (uint32_t d = 0; d < l->n_axes; d++)
        outer[d] = l->extent[d];
    if (l->n_axes > 0)
        outer[l->slow] = up ? ceil_div(slots, unit_of(l)) : slots / unit_of(l);
}

/* --- Images of a plate ----------------------------------------------------- */

void tg_layout_image_shape(const tg_layout *l, uint64_t image, uint64_t slots, uint64_t *outer)
{
    tg_layout_shape(l, tg_layout_image_slots(l, image, slots), true, outer);
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

uint64_t tg_layout_image_slots(const tg_layout *l, uint64_t image, uint64_t slots)
{
    uint64_t c[TG_STREAM_DIMS], n = 0;
    bool seen = false;
    int before = 0, after = 0; /* the image against slot `slots`, in loops around its frames */

    if (!tg_layout_is_plate(l))
        return slots;
    uint64_t fields = l->extent[l->n_axes + 1];
    uint64_t own[2] = {image / fields, image % fields};
    if (l->n_slots != NO_LIMIT && slots >= l->n_slots)
        return l->n_slots / l->n_images;
    digits(l, l->extent, slots, c);
    for (uint32_t i = 0; i < l->n_dims; i++) {
        uint32_t d = l->order[i];
        int *side = seen ? &after : &before;
        if (d >= l->n_axes) {
            *side = *side != 0 ? *side : compare(own[d - l->n_axes], c[d]);
            continue;
        }
        n = seen ? n * l->extent[d] + c[d] : c[d];
        seen = true;
    }
    if (before != 0)
        return before < 0 ? l->n_slots / l->n_images : 0;
    return n + (after < 0);
}

static uint64_t image_of(const tg_layout *l, const uint64_t *c)
{
    return tg_layout_is_plate(l) ? c[l->n_axes] * l->extent[l->n_axes + 1] + c[l->n_axes + 1]
                                 : 0;
}

uint64_t tg_layout_image(const tg_layout *l, uint64_t slot)
{
    uint64_t c[TG_STREAM_DIMS];

    digits(l, l->extent, slot, c);
    return image_of(l, c);
}

uint64_t tg_layout_image_slot(const tg_layout *l, uint64_t image, uint64_t n)
{
    uint64_t c[TG_STREAM_DIMS] = {0};
    uint64_t fields = l->extent[l->n_axes + 1];

    c[l->n_axes] = image / fields;
    c[l->n_axes + 1] = image % fields;
    for (uint32_t i = l->n_dims; i-- > 0;) {
        uint32_t d = l->order[i];
        if (d >= l->n_axes)
            continue;
        c[d] = d == l->slow ? n : n % l->extent[d];
        n = d == l->slow ? 0 : n / l->extent[d];
    }
    return undigits(l, l->extent, c);
}

uint64_t tg_layout_whole_units(const tg_layout *l, uint64_t slots)
{
    uint64_t block = unit_of(l);

    if (block == 1)
        return slots;
    for (uint32_t i = l->n_dims; i-- > 0 && l->order[i] >= l->n_axes;)
        block *= l->extent[l->order[i]];
    return slots - slots % block;
}

uint64_t tg_layout_split_index(const tg_layout *l, uint64_t index, int32_t *well,
                               int32_t *field)
{
    *well = *field = -1;
    if (!tg_layout_is_plate(l))
        return index;
    uint64_t fields = l->extent[l->n_axes + 1], image = index % l->n_images;
    *well = (int32_t)(image / fields);
    *field = (int32_t)(image % fields);
    return index / l->n_images;
}

uint64_t tg_layout_slots_of_shape(const tg_layout *l, const uint64_t *outer)
{
    return tg_frame_axes_count((tg_frame_axes){0, l->n_axes}, outer);
}

uint64_t tg_layout_shard_image(const tg_layout *l, uint64_t shard)
{
    uint64_t c[TG_STREAM_DIMS];

    shard_coords(l, shard, c); /* a shard has one well and one field */
    return image_of(l, c);
}

uint64_t tg_layout_layer_image(const tg_layout *l, uint64_t layer)
{
    uint64_t c[TG_STREAM_DIMS];

    layer_digits(l, layer, c);
    return image_of(l, c);
}

void tg_layout_shard_unit(const tg_layout *l, uint32_t plane, uint64_t shard, uint64_t *unit)
{
    uint64_t c[TG_STREAM_DIMS];

    (void)plane;
    for (uint32_t i = 0; i < l->n_axes + 2; i++)
        unit[i] = 0;
    shard_coords(l, shard, c);
    for (uint32_t d = 0; d < l->n_axes; d++)
        unit[tg_layout_axis(l, d)] = c[d];
}

void tg_layout_chunk_unit(const tg_layout *l, uint32_t plane, uint64_t layer, uint32_t tile,
                          uint64_t *unit)
{
    uint64_t c[TG_STREAM_DIMS];
    const tg_plane *p = &l->plane[plane];
    uint32_t y = y_axis(l), x = l->has_rows ? y + 1 : y;

    layer_digits(l, layer, c);
    for (uint32_t d = 0; d < l->n_axes; d++)
        unit[tg_layout_axis(l, d)] = c[d];
    unit[y] = tile / p->tiles_x;
    unit[x] = tile % p->tiles_x;
}

uint64_t tg_layout_entry(const tg_layout *l, uint32_t plane, uint64_t layer, uint32_t tile)
{
    uint64_t c[TG_STREAM_DIMS], n = 0;

    layer_digits(l, layer, c);
    for (uint32_t d = 0; d < l->n_dims; d++)
        n = n * l->shard_layers[d] + c[d] % l->shard_layers[d];
    return l->axis_last ? tile * l->per_shard + n : n * l->plane[plane].n_tiles + tile;
}
