/* GenICam cameras (GigE Vision, USB3 Vision) through Aravis, whose header only this file and
 * aravis_feature.c include. Aravis receives into buffers of its own; a frame is handed out from
 * there and its buffer goes back when the next one is asked for. */
#include "stream/source_aravis.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    BUFFERS_LEAST = 4,
    BUFFERS_MOST = 16,
    BUFFERS_BYTES = 64 << 20,     /* between the two: about so much memory */
    PACKET_RING_BYTES = 32 << 20, /* Aravis maps a ring for raw packets where it may (root) */
    DEFAULT_LOST_AFTER = 3,
    GIGE_IDS = 65535,
};

typedef struct aravis_source {
    tg_source base;
    ArvCamera *camera;
    ArvStream *stream; /* NULL until the first frame is asked for */
    ArvBuffer *held;   /* lent to the caller */
    _Atomic bool lost; /* set by the thread that keeps the connection */
    bool gige;
    size_t payload, frame_bytes;
    int64_t lost_after_ns;
    int64_t heard_ns; /* when there was a frame, or an answer */
} aravis_source;

static const char *camera_name(const aravis_source *s)
{
    return s->base.info.name;
}

tg_status aravis_fail(tg_error *err, tg_status code, const char *camera, const char *doing,
                      GError *why)
{
    tg_status st = tg_fail(err, code, "camera '%s': %s: %s", camera, doing,
                           why == NULL ? "no reason given" : why->message);
    tg_error_at(err, camera, TG_NO_OFFSET);
    g_clear_error(&why);
    return st;
}

/* --- Open ----------------------------------------------------------------- */

static void on_control_lost(ArvDevice *device, void *user)
{
    (void)device;
    ((aravis_source *)user)->lost = true;
}

/* A string that the camera says of itself; "": it says none. A register that is filled to its
 * end has no NUL, and Aravis hands out its bytes as they are: its length bounds what is read.
 */
static void read_string(const aravis_source *s, const char *feature, char *dst, size_t cap)
{
    ArvGcNode *node = arv_device_get_feature(arv_camera_get_device(s->camera), feature);
    dst[0] = '\0';
    if (node == NULL || !ARV_IS_GC_STRING(node))
        return;
    ArvGcString *string = ARV_GC_STRING(node);
    const char *text = arv_gc_string_get_value(string, NULL);
    gint64 most = ARV_IS_GC_REGISTER(node) ? arv_gc_string_get_max_length(string, NULL) : 0;
    size_t room = most > 0 && (guint64)most < cap ? (size_t)most : cap - 1;
    size_t n = text == NULL ? 0 : strnlen(text, room);
    if (n > 0)
        memcpy(dst, text, n);
    dst[n] = '\0';
}

static tg_status connect_camera(aravis_source *s, const char *id, tg_error *err)
{
    GError *why = NULL;
    const char *given = id[0] == '\0' ? "any" : id;
    char vendor[64], model[64], device[64];
    s->camera = arv_camera_new(id[0] == '\0' ? NULL : id, &why);
    if (s->camera == NULL)
        return aravis_fail(err, TG_NOT_FOUND, given, "cannot be opened", why);
    read_string(s, "DeviceID", device, sizeof device);
    if (device[0] == '\0')
        read_string(s, "DeviceSerialNumber", device, sizeof device);
    read_string(s, "DeviceVendorName", vendor, sizeof vendor);
    read_string(s, "DeviceModelName", model, sizeof model);
    const char *name = id[0] == '\0' && device[0] != '\0' ? device : given;
    (void)g_strlcpy(s->base.info.name, name, sizeof s->base.info.name);
    (void)g_snprintf(s->base.info.model, sizeof s->base.info.model, "%s %s", vendor, model);
    s->gige = arv_camera_is_gv_device(s->camera) != FALSE;
    (void)g_signal_connect(arv_camera_get_device(s->camera), "control-lost",
                           G_CALLBACK(on_control_lost), s);
    return TG_OK;
}

static tg_status read_format(aravis_source *s, tg_error *err)
{
    GError *why = NULL;
    tg_camera_format f = {.pixels = TG_PIXEL_PLAIN};
    tg_source_info *info = &s->base.info;
    const char *name = arv_camera_get_pixel_format_as_string(s->camera, &why);
    if (name == NULL || why != NULL)
        return aravis_fail(err, TG_IO, camera_name(s), "pixel format", why);
    tg_status st = tg_camera_format_parse(name, &f, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "camera '%s'", camera_name(s));
        return st;
    }
    (void)g_strlcpy(info->pixel_format, name, sizeof info->pixel_format);
    (void)g_strlcpy(info->bayer, f.bayer, sizeof info->bayer);
    info->pixels = f.pixels;
    info->dtype = f.dtype;
    info->bits = f.bits;
    return TG_OK;
}

static tg_status read_geometry(aravis_source *s, tg_error *err)
{
    GError *why = NULL;
    gint x = 0, y = 0, width = 0, height = 0;
    arv_camera_get_region(s->camera, &x, &y, &width, &height, &why);
    if (why == NULL)
        s->payload = arv_camera_get_payload(s->camera, &why);
    if (why != NULL || width <= 0 || height <= 0)
        return aravis_fail(err, TG_IO, camera_name(s), "size of its frames", why);
    tg_source_info *info = &s->base.info;
    info->width = (uint64_t)width;
    info->height = (uint64_t)height;
    size_t stored = 0; /* unpacked: must fit memory, too */
    TG_TRY(tg_source_frame_bytes(info->height, info->width, info->dtype, &stored, err));
    s->frame_bytes =
        (size_t)tg_pixels_bytes(info->pixels, info->width * info->height, info->dtype.size);
    if (s->payload < s->frame_bytes)
        return tg_fail(err, TG_IO, "camera '%s': sends %zu bytes, frames of %d x %d have %zu",
                       camera_name(s), s->payload, height, width, s->frame_bytes);
    if (arv_camera_is_frame_rate_available(s->camera, NULL)) {
        double fps = arv_camera_get_frame_rate(s->camera, NULL);
        info->fps = isfinite(fps) && fps > 0 ? fps : 0;
    }
    return TG_OK;
}

/* 64-bit ids on GigE are an option of the newer protocol, which the camera may have on. */
static bool has_extended_ids(const aravis_source *s)
{
    static const char feature[] = "GevGVSPExtendedIDMode";
    if (!arv_camera_is_feature_available(s->camera, feature, NULL))
        return false;
    const char *mode = arv_camera_get_string(s->camera, feature, NULL);
    return mode != NULL && strcmp(mode, "On") == 0;
}

static size_t count_buffers(size_t payload)
{
    size_t n = BUFFERS_BYTES / payload;
    return n < BUFFERS_LEAST ? BUFFERS_LEAST : n > BUFFERS_MOST ? BUFFERS_MOST : n;
}

static bool sets_feature(const tg_source_options *o, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; i < o->n_features; i++)
        if (strncmp(o->features[i], name, n) == 0 && o->features[i][n] == '=')
            return true;
    return false;
}

static tg_status init(aravis_source *s, const tg_source_options *o, const char *id,
                      tg_error *err)
{
    tg_source_info *info = &s->base.info;
    *info = (tg_source_info){.size = sizeof *info, .kind = TG_SOURCE_ARAVIS};
    TG_TRY(connect_camera(s, id, err));
    /* A camera that was left in another mode would stop after a frame; some have no modes. */
    if (!sets_feature(o, "AcquisitionMode"))
        arv_camera_set_acquisition_mode(s->camera, ARV_ACQUISITION_MODE_CONTINUOUS, NULL);
    for (uint32_t i = 0; i < o->n_features; i++)
        TG_TRY(aravis_set_feature(s->camera, camera_name(s), o->features[i], err));
    TG_TRY(read_format(s, err));
    TG_TRY(read_geometry(s, err));
    double after = o->lost_after > 0 ? o->lost_after : DEFAULT_LOST_AFTER;
    s->lost_after_ns = after < 1e6 ? (int64_t)(after * 1e9) : INT64_MAX;
    info->ids = s->gige && !has_extended_ids(s) ? TG_ID_GIGE_16 : TG_ID_64;
    info->buffer_bytes = (uint64_t)count_buffers(s->payload) * s->payload;
    if (s->gige)
        info->buffer_bytes += PACKET_RING_BYTES;
    return TG_OK;
}

/* --- Frames --------------------------------------------------------------- */

/* Bytes that never arrive would show an older frame's: they are zeroed beforehand where packets
 * can get lost. */
static void give_buffer(aravis_source *s, ArvBuffer *buffer)
{
    size_t size = 0;
    const void *data = arv_buffer_get_data(buffer, &size);
    if (s->gige && data != NULL)
        memset((void *)(uintptr_t)data, 0, s->payload);
    arv_stream_push_buffer(s->stream, buffer);
}

static tg_status start(aravis_source *s, tg_error *err)
{
    GError *why = NULL;
    s->stream = arv_camera_create_stream(s->camera, NULL, NULL, &why);
    if (s->stream == NULL)
        return aravis_fail(err, TG_IO, camera_name(s), "stream", why);
    if (s->gige)
        g_object_set(s->stream, "socket-buffer", ARV_GV_STREAM_SOCKET_BUFFER_AUTO,
                     "socket-buffer-size", 0, NULL);
    for (size_t i = 0; i < count_buffers(s->payload); i++) {
        ArvBuffer *buffer = arv_buffer_new_allocate(s->payload);
        if (buffer == NULL)
            return tg_fail(err, TG_NO_MEMORY, "camera '%s': no memory for its buffers",
                           camera_name(s));
        give_buffer(s, buffer);
    }
    arv_camera_start_acquisition(s->camera, &why);
    if (why != NULL)
        return aravis_fail(err, TG_IO, camera_name(s), "start", why);
    s->heard_ns = tg_clock_ns();
    return TG_OK;
}

/* A silent camera may wait for a trigger: ask for a register that every one has. */
static tg_status check_present(aravis_source *s, tg_error *err)
{
    GError *why = NULL;
    uint32_t version = 0;
    if (!s->lost && tg_clock_ns() - s->heard_ns < s->lost_after_ns)
        return TG_OK;
    bool answers = !s->lost && arv_device_read_memory(arv_camera_get_device(s->camera), 0,
                                                      sizeof version, &version, &why);
    s->heard_ns = tg_clock_ns();
    if (answers)
        return TG_OK;
    s->lost = true;
    s->base.ended = true;
    if (why == NULL)
        return tg_fail(err, TG_IO, "camera '%s' is gone: the connection was lost",
                       camera_name(s));
    return aravis_fail(err, TG_IO, camera_name(s), "is gone", why);
}

/* The next buffer that holds something of a frame. */
static tg_status pop_buffer(aravis_source *s, ArvBuffer **out, const tg_cancel *cancel,
                            tg_error *err)
{
    for (;;) {
        TG_TRY(tg_cancel_check(cancel, err));
        ArvBuffer *buffer =
            arv_stream_timeout_pop_buffer(s->stream, (guint64)TG_SOURCE_LOOK_NS / 1000);
        ArvBufferStatus status =
            buffer == NULL ? ARV_BUFFER_STATUS_CLEARED : arv_buffer_get_status(buffer);
        if (buffer != NULL && status != ARV_BUFFER_STATUS_CLEARED &&
            status != ARV_BUFFER_STATUS_ABORTED && status != ARV_BUFFER_STATUS_UNKNOWN) {
            *out = buffer;
            return TG_OK;
        }
        if (buffer != NULL)
            give_buffer(s, buffer);
        TG_TRY(check_present(s, err));
    }
}

/* Rows may be padded; a camera whose region was changed by someone else sends other frames. */
static tg_status check_whole(aravis_source *s, ArvBuffer *buffer, tg_source_frame *frame,
                             tg_error *err)
{
    gint width = arv_buffer_get_image_width(buffer),
         height = arv_buffer_get_image_height(buffer);
    gint x_padding = 0, y_padding = 0;
    size_t size = 0;
    const tg_source_info *info = &s->base.info;
    arv_buffer_get_image_padding(buffer, &x_padding, &y_padding);
    const void *data = arv_buffer_get_image_data(buffer, &size);
    uint64_t row = tg_pixels_bytes(info->pixels, info->width, info->dtype.size);
    uint64_t want = x_padding > 0 ? info->height * (row + (uint64_t)x_padding) : s->frame_bytes;
    if ((uint64_t)width != info->width || (uint64_t)height != info->height || size < want) {
        s->base.ended = true;
        return tg_fail(err, TG_IO,
                       "camera '%s': a frame of %d x %d in %zu bytes, want %" PRIu64
                       " x %" PRIu64 " in %" PRIu64,
                       camera_name(s), height, width, size, info->height, info->width, want);
    }
    frame->pixels = data;
    frame->layout.row_pitch = x_padding > 0 ? (int64_t)row + x_padding : 0;
    return TG_OK;
}

/* Ids that turn out longer than 16 bits are brought onto the circle that was promised. */
static uint64_t frame_id(const aravis_source *s, ArvBuffer *buffer)
{
    uint64_t id = arv_buffer_get_frame_id(buffer);
    return s->base.info.ids == TG_ID_GIGE_16 && id > GIGE_IDS ? (id - 1) % GIGE_IDS + 1 : id;
}

static tg_status next(tg_source *base, void *room, size_t pitch, tg_source_frame *frame,
                      const tg_cancel *cancel, tg_error *err)
{
    aravis_source *s = (aravis_source *)base;
    (void)room; /* Aravis receives ahead of us, into its own */
    (void)pitch;
    if (s->stream == NULL) {
        tg_status st = start(s, err);
        base->ended = st != TG_OK;
        TG_TRY(st);
    }
    if (s->held != NULL)
        give_buffer(s, s->held);
    s->held = NULL;
    TG_TRY(pop_buffer(s, &s->held, cancel, err));
    s->heard_ns = tg_clock_ns();
    bool whole = arv_buffer_get_status(s->held) == ARV_BUFFER_STATUS_SUCCESS;
    size_t size = 0;
    frame->pixels = arv_buffer_get_data(s->held, &size);
    frame->bytes = s->frame_bytes;
    frame->layout.pixels = base->info.pixels;
    if (whole)
        TG_TRY(check_whole(s, s->held, frame, err));
    frame->meta.partial = !whole;
    frame->meta.id = frame_id(s, s->held);
    uint64_t device = arv_buffer_get_timestamp(s->held);
    uint64_t host = arv_buffer_get_system_timestamp(s->held);
    frame->meta.time_device_ns =
        device == 0 || device > INT64_MAX ? INT64_MIN : (int64_t)device;
    frame->meta.time_host_ns =
        host == 0 || host > INT64_MAX ? tg_clock_utc_ns() : (int64_t)host;
    return TG_OK;
}

/* --- The end -------------------------------------------------------------- */

static void stop(tg_source *base)
{
    aravis_source *s = (aravis_source *)base;
    if (s->stream != NULL && !s->lost)
        arv_camera_stop_acquisition(s->camera, NULL); /* nothing can be done if it does not */
}

static void close_aravis(tg_source *base)
{
    aravis_source *s = (aravis_source *)base;
    if (s->camera != NULL)
        (void)g_signal_handlers_disconnect_by_data(arv_camera_get_device(s->camera), s);
    g_clear_object(&s->held);
    g_clear_object(&s->stream);
    g_clear_object(&s->camera);
    tg_free(s);
}

static const tg_source_ops aravis_ops = {.next = next, .stop = stop, .close = close_aravis};

tg_status tg_source_open_aravis(const tg_source_options *options, const tg_source_spec *spec,
                                tg_source **out, tg_error *err)
{
    aravis_source *s = tg_calloc(1, sizeof *s);
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a camera");
    s->base.ops = &aravis_ops;
    tg_status st = init(s, options, spec->text, err);
    if (st != TG_OK) {
        close_aravis(&s->base);
        return st;
    }
    *out = &s->base;
    return TG_OK;
}
