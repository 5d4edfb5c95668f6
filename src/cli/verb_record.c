/* cli/verb_record.c - record: opens the sources, then the store; runs; closes; reports. */
#include "record.h"
#include "tidegate/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_META (4 << 20) /* bytes of --meta and --plate: documents, not data */

/* --- Sources --------------------------------------------------------------- */

static bool is_test(const char *spec)
{
    return strncmp(spec, "test:", 5) == 0;
}

static bool is_camera(const char *spec)
{
    return strcmp(spec, "aravis") == 0 || strncmp(spec, "aravis:", 7) == 0;
}

static tg_status check_source(recording *r, uint32_t i)
{
    const record_source *s = &r->source[i];
    if (r->n > 1 && s->name[0] == '\0')
        return cli_fail(&r->c->err, TG_INVALID,
                        "--from %.100s: several sources need names: NAME=SOURCE", s->spec);
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(s->name, r->source[k].name) == 0)
            return cli_fail(&r->c->err, TG_INVALID, "--from: two sources are named '%s'",
                            s->name);
        if (strcmp(s->spec, "-") == 0 && strcmp(r->source[k].spec, "-") == 0)
            return cli_fail(&r->c->err, TG_INVALID,
                            "--from: standard input is there only once");
    }
    return TG_OK;
}

/* Options that no source of this recording can use are a mistake, not to be passed over. */
static tg_status check_uses(recording *r)
{
    const record_options *o = r->o;
    bool raw = false, camera = false;
    for (uint32_t i = 0; i < r->n; i++) {
        camera |= is_camera(r->source[i].spec);
        raw |= !is_camera(r->source[i].spec) && !is_test(r->source[i].spec);
    }
    bool for_raw = o->shape.n > 0 || o->dtype.kind != TG_DT_NONE || o->fps > 0;
    if (for_raw && !raw)
        return cli_fail(&r->c->err, TG_INVALID,
                        "--shape, --dtype and --fps describe raw frames (- or FILE): these "
                        "sources know theirs");
    if (raw && (o->shape.n == 0 || o->dtype.kind == TG_DT_NONE))
        return cli_fail(&r->c->err, TG_INVALID,
                        "raw frames need --shape H,W and --dtype, as in --shape 772,1032 "
                        "--dtype uint8");
    if (o->camera.n > 0 && !camera)
        return cli_fail(&r->c->err, TG_INVALID, "--camera sets features of an aravis source");
    return TG_OK;
}

static tg_status parse_sources(recording *r)
{
    const cli_list *from = &r->o->from;
    if (from->n == 0)
        return cli_fail(&r->c->err, TG_INVALID,
                        "--from is missing: test:WxH:DTYPE[@FPS], -, a "
                        "FILE, or aravis[:ID]");
    if (from->n > RECORD_MAX_SOURCES)
        return cli_fail(&r->c->err, TG_INVALID, "more than %d sources", RECORD_MAX_SOURCES);
    for (r->n = 0; r->n < from->n; r->n++) {
        tg_status st = record_parse_source(from->item[r->n], &r->source[r->n], &r->c->err);
        if (st != TG_OK)
            return st;
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (check_source(r, i) != TG_OK)
            return r->c->err.code;
    return check_uses(r);
}

/* What a camera is goes into its array's attributes; Bayer frames are stored as they come. */
static tg_status describe_camera(record_source *s, tg_error *err)
{
    json_out j = {0};
    if (s->info.kind != TG_SOURCE_ARAVIS)
        return TG_OK;
    json_open(&j, "camera");
    json_text(&j, "id", s->info.name);
    json_text(&j, "model", s->info.model);
    json_text(&j, "pixel_format", s->info.pixel_format);
    if (s->info.bayer[0] != '\0')
        json_text(&j, "bayer", s->info.bayer);
    json_u64(&j, "bits", s->info.bits);
    json_close(&j);
    size_t room = j.len + 3;
    s->attributes = j.failed ? NULL : tg_alloc(room);
    if (s->attributes != NULL)
        (void)snprintf(s->attributes, room, "{%s}", j.text);
    json_free(&j);
    return s->attributes != NULL ? TG_OK : cli_fail(err, TG_NO_MEMORY, "no memory");
}

static tg_status open_source(recording *r, uint32_t i)
{
    record_source *s = &r->source[i];
    const record_options *o = r->o;
    bool raw = !is_camera(s->spec) && !is_test(s->spec), camera = is_camera(s->spec);
    tg_source_options options = {.size = sizeof options, .spec = s->spec, .array = i};
    if (raw) {
        options.height = o->shape.v[0];
        options.width = o->shape.v[1];
        options.dtype = o->dtype;
        options.fps = o->fps;
    }
    if (camera) {
        options.features = o->camera.item;
        options.n_features = (uint32_t)o->camera.n;
    }
    tg_status st = tg_source_open(&options, &s->source, &r->c->err);
    if (st != TG_OK)
        return st;
    s->info.size = sizeof s->info;
    tg_source_get_info(s->source, &s->info);
    st = describe_camera(s, &r->c->err);
    if (st != TG_OK)
        return st;

    tg_stream_array *a = &r->array[i];
    *a = r->layout.array;
    a->name = s->name[0] != '\0' ? s->name : NULL;
    a->dtype = s->info.dtype;
    a->height = s->info.height;
    a->width = s->info.width;
    a->fps = s->info.fps;
    a->ids = s->info.ids;
    a->attributes = s->attributes;
    if (!r->layout.has_on_full)
        a->on_full = s->info.can_wait ? TG_FULL_BLOCK : TG_FULL_DROP_NEW;
    return TG_OK;
}

/* --- The store ------------------------------------------------------------- */

/* Memory that sources hold beside the recorder: frames they decode into, a camera's buffers. */
static tg_status source_memory(recording *r, uint64_t *bytes)
{
    uint64_t sum = 0, memory = r->c->common->memory;
    for (uint32_t i = 0; i < r->n; i++)
        if (__builtin_add_overflow(sum, r->source[i].info.buffer_bytes, &sum) ||
            sum >= memory) {
            char have[24], want[24];
            return cli_fail(&r->c->err, TG_OVER_BUDGET,
                            "the source '%.100s' alone takes %s, --memory is %s",
                            r->source[i].spec,
                            cli_bytes_text(r->source[i].info.buffer_bytes, want, sizeof want),
                            cli_bytes_text(memory, have, sizeof have));
        }
    *bytes = sum;
    return TG_OK;
}

/* The recorder takes a C string: what follows a NUL is not to be passed over. */
static tg_status read_document(recording *r, const char *path, char **text)
{
    size_t len = 0;
    if (path == NULL)
        return TG_OK;
    tg_status st = cli_read_file(path, MOST_META, text, &len, &r->c->err);
    if (st == TG_OK && strlen(*text) != len)
        st = cli_fail(&r->c->err, TG_INVALID, "'%s' has a NUL byte", path);
    return st;
}

static tg_status read_documents(recording *r)
{
    tg_status st = read_document(r, r->o->meta, &r->meta);
    return st == TG_OK ? read_document(r, r->o->plate, &r->plate) : st;
}

/* A ring as large as --memory allows where it was given, or where a source cannot wait; else
 * the recorder takes what it needs to bridge the stalls of a disk, within the default. */
static uint64_t ring_budget(const recording *r, uint64_t beside)
{
    bool whole = r->c->common->memory_given;
    for (uint32_t i = 0; i < r->n; i++)
        whole |= !r->source[i].info.can_wait || r->array[i].on_full != TG_FULL_BLOCK;
    return whole ? r->c->common->memory - beside : 0;
}

static tg_status open_stream(recording *r)
{
    uint64_t beside = 0;
    const record_options *o = r->o;
    tg_status st = source_memory(r, &beside);
    if (st == TG_OK)
        st = read_documents(r);
    if (st == TG_OK)
        st = cli_runtime(r->c, r->c->common->memory - beside, &r->rt);
    if (st != TG_OK)
        return st;
    tg_stream_options options = {.size = sizeof options,
                                 .path = r->c->operands.item[0],
                                 .format = o->format == 1 ? 2 : 3,
                                 .mode = o->append      ? TG_STREAM_APPEND
                                         : o->overwrite ? TG_STREAM_OVERWRITE
                                                        : TG_STREAM_CREATE,
                                 .ome = o->ome,
                                 .plate = r->plate,
                                 .attributes = r->meta,
                                 .commit_interval = o->commit_interval,
                                 .direct = o->direct == 1   ? TG_DIRECT_ON
                                           : o->direct == 2 ? TG_DIRECT_OFF
                                                            : TG_DIRECT_AUTO,
                                 .arrays = r->array,
                                 .n_arrays = r->n,
                                 .memory_bytes = ring_budget(r, beside),
                                 .progress = cli_progress_report,
                                 .progress_user = &r->c->progress};
    return tg_stream_open(r->rt, &options, &r->stream, &r->c->err);
}

/* A report that cannot be written is found before the recording, not after it. */
static tg_status check_writable(recording *r, const char *path)
{
    if (path == NULL)
        return TG_OK;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        (void)unlink(path);
    else if (errno == EEXIST)
        fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_fail_errno(&r->c->err, path, "write");
    (void)close(fd);
    return TG_OK;
}

/* --- The end --------------------------------------------------------------- */

static void free_all(recording *r)
{
    tg_stream_free(r->stream);
    for (uint32_t i = 0; i < r->n; i++) {
        tg_source_close(r->source[i].source);
        tg_free(r->source[i].attributes);
    }
    tg_free(r->report.samples);
    tg_free(r->meta);
    tg_free(r->plate);
    tg_runtime_free(r->rt);
}

/* Everything is published before the counters of the single arrays are read: close frees them.
 */
static void array_stats(recording *r)
{
    tg_error err;
    if (tg_stream_flush(r->stream, TG_LEVEL_PUBLISHED, 0, &err) != TG_OK)
        err.code = TG_OK; /* close reports it */
    for (uint32_t i = 0; i < r->n; i++) {
        r->stats[i].size = sizeof r->stats[i];
        tg_stream_get_stats(r->stream, i, &r->stats[i]);
    }
}

static tg_status close_stream(recording *r, tg_status before)
{
    tg_error err;
    r->report.size = sizeof r->report;
    if (r->n > 1)
        array_stats(r);
    tg_status st = tg_stream_close(r->stream, &r->report, &err);
    r->stream = NULL;
    cli_progress_end(&r->c->progress);
    if (before != TG_OK || st == TG_OK)
        return before;
    /* A source's failure is the array's error, and close gives it back. */
    if (r->source_failed && strstr(err.msg, r->c->err.msg) != NULL)
        return TG_OK;
    r->source_failed = false;
    r->c->err = err;
    return st;
}

static bool lost_frames(const tg_stream_stats *s)
{
    return s->dropped + s->lost + s->skipped + s->partial + s->failed > 0;
}

static int exit_status(const recording *r, tg_status st)
{
    const record_options *o = r->o;
    if (st != TG_OK)
        return CLI_FAILED;
    if (r->source_failed || lost_frames(&r->report.total) || r->short_of_frames)
        return CLI_INCOMPLETE;
    return r->interrupted && (o->frames > 0 || o->seconds > 0) ? CLI_INCOMPLETE : CLI_DONE;
}

/* The table and the report. The first failure is the one that is told. */
static void write_beside(recording *r, tg_status *st)
{
    cli *c = r->c;
    if (*st == TG_OK && !r->source_failed)
        cli_no_error(c);
    tg_error first = c->err;
    if (r->o->table != NULL) {
        tg_status table = record_write_table(r);
        first = first.code == TG_OK && table != TG_OK ? c->err : first;
        *st = *st == TG_OK ? table : *st;
    }
    c->err = first;
    if (r->o->report != NULL) {
        tg_status report = record_write_report(r);
        first = first.code == TG_OK && report != TG_OK ? c->err : first;
        *st = *st == TG_OK ? report : *st;
    }
    c->err = first;
}

static int record(recording *r)
{
    cli *c = r->c;
    tg_status st = record_layout_parse(r->o, &r->layout, &c->err);
    if (st == TG_OK)
        st = parse_sources(r);
    if (st == TG_OK)
        st = check_writable(r, r->o->table);
    if (st == TG_OK)
        st = check_writable(r, r->o->report);
    for (uint32_t i = 0; st == TG_OK && i < r->n; i++)
        st = open_source(r, i);
    if (st == TG_OK)
        st = open_stream(r);
    if (st != TG_OK && c->err.code == TG_CORRUPT && !r->o->append)
        return CLI_USAGE; /* --meta or --plate: there is nothing else that we read */
    if (st != TG_OK)
        return cli_refused(c);

    cli_no_error(c);
    st = close_stream(r, record_run(r));
    write_beside(r, &st);
    record_print(r);
    return exit_status(r, st);
}

static int run(cli *c, void *options)
{
    static recording r; /* large, and there is one */
    r = (recording){.c = c, .o = options};
    int status = record(&r);
    free_all(&r);
    return status;
}

const cli_verb cli_record = {
    .name = "record",
    .operands = "OUT",
    .least = 1,
    .most = 1,
    .summary = "frames from cameras, a pipe or a file into a Zarr store, at the disk's speed",
    .example =
        "  tidegate record run.zarr --from test:1032x772:uint8@53 --seconds 5\n"
        "  tidegate record run.zarr --from aravis --camera ExposureTime=5000 --report "
        "run.html\n"
        "  ffmpeg -i film.mp4 -f rawvideo -pix_fmt gray - |\n"
        "    tidegate record film.zarr --from - --shape 1080,1920 --dtype uint8 --fps 25\n",
    .options = record_option_table,
    .n_options = RECORD_N_OPTIONS,
    .run = run,
};
