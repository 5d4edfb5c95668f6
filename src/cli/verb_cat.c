/* cli/verb_cat.c - cat: the items of an array, as fill-value JSON one a line in C order, or as
 * a .npy file. Reads box by box, within the budget. */
#include "node.h"
#include "region.h"
#include "tidegate/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct cat_options {
    cli_common common;
    const char *region;
    bool npy;
} cat_options;

static const cli_option options_table[] = {
    {"region", CLI_TEXT, offsetof(cat_options, region), "0:2,:,5",
     "the part to print, a range or an index per dimension (all)"},
    {"npy", CLI_FLAG, offsetof(cat_options, npy), NULL, "write a .npy file instead of text"},
};

#define TEXT_BYTES_PER_ITEM 64 /* the most one item's JSON takes, complex numbers included */
#define ROOM_MOST           (8 << 20) /* bytes of a box: more gains nothing */
#define SELF_BYTES          (1 << 20) /* for what else we hold */

/* One region on its way out. */
typedef struct cat_job {
    cli *c;
    const cat_options *options;
    tg_array *array;
    const tg_array_info *info;
    cli_region region;
    uint64_t items;
    uint64_t room; /* bytes for one box, reserved of --memory */
} cat_job;

/* --- What may be read ---------------------------------------------------- */

/* The budget has to hold what reading one chunk costs, and a box. */
static tg_status check_budget(cat_job *job)
{
    uint64_t memory = job->c->common->memory, worst = tg_array_worst_bytes(job->array);
    uint64_t item = job->info->dtype.size > 0 ? job->info->dtype.size : 1;
    uint64_t fixed = SELF_BYTES, text = 0;
    if (job->c->common->json &&
        __builtin_mul_overflow(job->items, (uint64_t)TEXT_BYTES_PER_ITEM, &text))
        text = UINT64_MAX;
    if (__builtin_add_overflow(fixed, worst, &fixed) ||
        __builtin_add_overflow(fixed, text, &fixed) || fixed > memory ||
        memory - fixed < item) {
        char have[24], want[24];
        return cli_fail(
            &job->c->err, TG_OVER_BUDGET,
            "one chunk takes %s%s, --memory is %s: give it more, or read a store with "
            "smaller chunks",
            cli_bytes_text(fixed, want, sizeof want),
            text > 0 ? " with the JSON of all items" : "",
            cli_bytes_text(memory, have, sizeof have));
    }
    job->room = memory - fixed < ROOM_MOST ? memory - fixed : ROOM_MOST;
    return TG_OK;
}

static tg_status check_request(cat_job *job)
{
    cli *c = job->c;
    if (job->options->npy && c->common->json)
        return cli_fail(&c->err, TG_INVALID, "--npy and --json both want standard output");
    if (job->options->npy && job->info->dtype.kind == TG_DT_STRING)
        return cli_fail(&c->err, TG_UNSUPPORTED,
                        ".npy has no form for strings that is not Python's");
    if (job->info->dtype.kind == TG_DT_STRING && job->info->ndim != 1)
        return cli_fail(&c->err, TG_UNSUPPORTED, "strings in %u dimensions", job->info->ndim);
    tg_status st = region_parse(job->options->region, job->info->shape, job->info->ndim,
                                &job->region, &c->err);
    if (st != TG_OK) {
        cli_prefix(&c->err, "--region");
        return st;
    }
    if (!region_items(&job->region, &job->items))
        return cli_fail(&c->err, TG_INVALID, "more than 2^64 items");
    return check_budget(job);
}

/* --- .npy ---------------------------------------------------------------- */

static const char *npy_type(tg_dtype t, char room[16])
{
    static const char kinds[] = {
        [TG_DT_NONE] = 0,    [TG_DT_BOOL] = 'b',    [TG_DT_INT] = 'i',  [TG_DT_UINT] = 'u',
        [TG_DT_FLOAT] = 'f', [TG_DT_COMPLEX] = 'c', [TG_DT_STRING] = 0, [TG_DT_RAW] = 'V'};
    const uint16_t one = 1;
    char order = *(const unsigned char *)&one == 1 ? '<' : '>';
    if (t.size == 1 || t.kind == TG_DT_RAW)
        order = '|';
    (void)snprintf(room, 16, "%c%c%u", order, kinds[t.kind], t.size);
    return room;
}

/* Format 1.0 of numpy.lib.format: magic, version, length of the header, a Python dict padded
 * with spaces so that the data begins at a multiple of 64. */
static void write_npy_header(const cat_job *job)
{
    char header[1024], type[16];
    size_t n = (size_t)snprintf(header, sizeof header,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                npy_type(job->info->dtype, type));
    for (uint32_t d = 0; d < job->region.ndim; d++)
        if (!job->region.single[d])
            n += (size_t)snprintf(header + n, sizeof header - n, "%" PRIu64 ",",
                                  job->region.count[d]);
    n += (size_t)snprintf(header + n, sizeof header - n, "), }");
    while ((n + 11) % 64 != 0)
        header[n++] = ' ';
    header[n++] = '\n';
    const unsigned char start[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    (void)fwrite(start, 1, sizeof start, stdout);
    (void)fwrite(header, 1, n, stdout);
}

/* --- Items --------------------------------------------------------------- */

static void print_items(cat_job *job, const unsigned char *items, uint64_t n)
{
    char text[512]; /* raw items may be long */
    size_t size = job->info->dtype.size;
    for (uint64_t i = 0; i < n; i++) {
        tg_item_text(job->info->dtype, items + i * size, text, sizeof text);
        if (job->c->common->json)
            json_raw(&job->c->json, NULL, text);
        else
            (void)puts(text);
    }
}

static tg_status output_gone(cat_job *job)
{
    return cli_fail(&job->c->err, TG_IO, "standard output cannot be written");
}

static tg_status print_numbers(cat_job *job)
{
    uint64_t size = job->info->dtype.size;
    CLI_AUTO(cli_auto_free) unsigned char *items = tg_alloc((size_t)job->room);
    if (items == NULL)
        return cli_fail(&job->c->err, TG_NO_MEMORY, "no memory for %" PRIu64 " bytes",
                        job->room);
    region_walk w = {
        .region = &job->region, .chunk = job->info->chunk, .most = job->room / size};
    while (region_next(&w)) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < job->region.ndim; d++)
            n *= w.count[d];
        tg_status st = tg_array_read(job->array, w.start, w.count, items, NULL, job->c->cancel,
                                     &job->c->err);
        if (st != TG_OK)
            return st;
        if (job->options->npy)
            (void)fwrite(items, (size_t)size, (size_t)n, stdout);
        else
            print_items(job, items, n);
        if (ferror(stdout) != 0)
            return output_gone(job);
    }
    return TG_OK;
}

static void print_string(cat_job *job, const char *text, size_t len, char *room)
{
    memcpy(room, text, len);
    room[len] = '\0';
    if (job->c->common->json) {
        json_text(&job->c->json, NULL, room);
        return;
    }
    json_out line = {0};
    json_text(&line, NULL, room);
    (void)puts(line.text != NULL && !line.failed ? line.text : "null");
    json_free(&line);
}

static tg_status print_strings(cat_job *job)
{
    region_walk w = {.region = &job->region, .chunk = job->info->chunk, .most = 4096};
    while (region_next(&w)) {
        CLI_AUTO(cli_auto_free) uint64_t *offsets = NULL;
        CLI_AUTO(cli_auto_free) char *text = NULL;
        tg_status st =
            tg_array_read_strings(job->array, w.start[0], w.count[0], (size_t)job->room / 4,
                                  &offsets, &text, job->c->cancel, &job->c->err);
        if (st != TG_OK)
            return st;
        size_t longest = 0;
        for (uint64_t i = 0; i < w.count[0]; i++)
            longest =
                offsets[i + 1] - offsets[i] > longest ? offsets[i + 1] - offsets[i] : longest;
        CLI_AUTO(cli_auto_free) char *room = tg_alloc(longest + 1);
        if (room == NULL)
            return cli_fail(&job->c->err, TG_NO_MEMORY, "no memory for a string");
        for (uint64_t i = 0; i < w.count[0]; i++)
            print_string(job, text + offsets[i], (size_t)(offsets[i + 1] - offsets[i]), room);
        if (ferror(stdout) != 0)
            return output_gone(job);
    }
    return TG_OK;
}

static int print_region(cat_job *job)
{
    cli *c = job->c;
    char room[16];
    json_text(&c->json, "dtype", tg_dtype_name(job->info->dtype, room));
    json_open_list(&c->json, "shape");
    for (uint32_t d = 0; d < job->region.ndim; d++)
        if (!job->region.single[d])
            json_u64(&c->json, NULL, job->region.count[d]);
    json_close_list(&c->json);
    json_open_list(&c->json, "items");
    if (job->options->npy)
        write_npy_header(job);
    tg_status st =
        job->info->dtype.kind == TG_DT_STRING ? print_strings(job) : print_numbers(job);
    json_close_list(&c->json);
    if (st == TG_CANCELLED)
        return CLI_INCOMPLETE;
    return st == TG_OK ? CLI_DONE : CLI_FAILED;
}

static int run(cli *c, void *options)
{
    CLI_AUTO(place_close) cli_place place = {0};
    CLI_AUTO(node_close) cli_node n = {0};
    const char *path = c->operands.item[0];
    if (place_open(c, path, &place) != TG_OK || node_open(c, &place, place.prefix, &n) != TG_OK)
        return cli_refused(c);
    if (n.array == NULL) {
        (void)cli_fail(&c->err, TG_INVALID,
                       "'%.200s' is a group: name one of its arrays, such as "
                       "'%.100s/0'",
                       cli_shown(c, 0), cli_shown(c, 0));
        return CLI_USAGE;
    }
    cat_job job = {.c = c, .options = options, .array = n.array, .info = &n.info};
    return check_request(&job) == TG_OK ? print_region(&job) : cli_refused(c);
}

const cli_verb cli_cat = {
    .name = "cat",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "print the items of an array",
    .example = "  tidegate cat --region 0,0:4,: run.zarr/0\n"
               "  tidegate cat --npy run.zarr/frames/time_host > times.npy\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
