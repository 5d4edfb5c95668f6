/* Functions of a shared object, by the ABI of tidegate/plugin.h. Knows no regions. */
#include "base/mem.h"
#include "region/function_kinds.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct plugin_function {
    tg_function f;
    void *library;
    const tg_plugin *plugin;
    void *state;
    uint64_t scratch_bytes;
    bool open; /* close is owed */
    char file[480];
} plugin_function;

static tg_status call_plugin(tg_function *f, const tg_region_call *call, uint32_t slot,
                             const tg_cancel *cancel, tg_error *err)
{
    const plugin_function *p = (const plugin_function *)f;
    (void)slot;
    (void)cancel;
    return tg_function_call_fn(p->plugin->call, p->state, call, err);
}

static uint64_t scratch_of_plugin(const tg_function *f, const tg_shape *in, const tg_shape *out)
{
    (void)in;
    (void)out;
    return ((const plugin_function *)f)->scratch_bytes;
}

static tg_status fold_plugin(tg_function *f, const tg_region_view *base,
                             const tg_region_view *patch, uint64_t roi, tg_error *err)
{
    const plugin_function *p = (const plugin_function *)f;
    const int rc = p->plugin->fold(base, patch, roi, p->state);
    return rc == 0 ? TG_OK
                   : tg_fail(err, TG_IO, "region %" PRIu64 ": the fold of '%s' says %d", roi,
                             p->file, rc);
}

static void free_plugin(tg_function *f)
{
    plugin_function *p = (plugin_function *)f;

    if (p->open && p->plugin->close != NULL)
        p->plugin->close(p->state);
    if (p->library != NULL)
        (void)dlclose(p->library);
    tg_free(p);
}

static const tg_function_ops plain_ops = {
    call_plugin, scratch_of_plugin, NULL, free_plugin, NULL, NULL};
static const tg_function_ops fold_ops = {
    call_plugin, scratch_of_plugin, fold_plugin, free_plugin, NULL, NULL};

/* "FILE[:SYM]": SYM is behind the last colon, unless a '/' is. A name without '/' is a file
 * here, not one of the system's libraries. */
static tg_status split(const char *text, char *file, size_t cap, const char **symbol,
                       tg_error *err)
{
    const char *colon = strrchr(text, ':'), *slash = strrchr(text, '/');
    const bool named = colon != NULL && (slash == NULL || colon > slash);
    const size_t n = named ? (size_t)(colon - text) : strlen(text);

    *symbol = named ? colon + 1 : "tg_plugin_main";
    if (n == 0 || (*symbol)[0] == '\0')
        return tg_fail(err, TG_INVALID, "plug-in '%.200s': want FILE.so or FILE.so:SYM", text);
    const int len = snprintf(file, cap, "%s%.*s", slash == NULL ? "./" : "", (int)n, text);
    return len > 0 && (size_t)len < cap
               ? TG_OK
               : tg_fail(err, TG_INVALID, "plug-in '%.200s...': the path is too long", text);
}

static tg_status load(plugin_function *p, const char *symbol, tg_error *err)
{
    p->library = dlopen(p->file, RTLD_NOW | RTLD_LOCAL);
    if (p->library == NULL) {
        const char *why =
            dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own in glibc */
        return tg_fail(err, TG_INVALID, "plug-in '%s' cannot be loaded: %.200s", p->file,
                       why == NULL ? "no reason given" : why);
    }
    p->plugin = dlsym(p->library, symbol);
    if (p->plugin == NULL)
        return tg_fail(err, TG_INVALID,
                       "plug-in '%s' has no '%.60s': want an object of type tg_plugin "
                       "(tidegate/plugin.h) of that name",
                       p->file, symbol);
    if (p->plugin->magic != TG_PLUGIN_MAGIC)
        return tg_fail(err, TG_INVALID, "plug-in '%s': '%.60s' is no tg_plugin", p->file,
                       symbol);
    if (p->plugin->version == 0 || p->plugin->version > TG_PLUGIN_VERSION)
        return tg_fail(err, TG_UNSUPPORTED,
                       "plug-in '%s' is of version %" PRIu32
                       " of tidegate/plugin.h, want at most %d",
                       p->file, p->plugin->version, TG_PLUGIN_VERSION);
    return p->plugin->call != NULL
               ? TG_OK
               : tg_fail(err, TG_INVALID, "plug-in '%s': '%.60s' has no call", p->file, symbol);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the plug-in writes through it */
static void fill_setup(tg_plugin_setup *s, const tg_function_env *env, char *message)
{
    const uint32_t ndim = env->in_shape->ndim;

    *s = (tg_plugin_setup){.size = sizeof *s,
                           .in_dtype = env->in_dtype,
                           .ndim = ndim,
                           .jobs = env->jobs,
                           .out_dtype = env->wanted != NULL ? *env->wanted : env->in_dtype,
                           .message = message};
    for (uint32_t d = 0; d < ndim; d++) {
        s->in_shape[d] = env->in_shape->n[d];
        s->axes[d] = env->axes == NULL || env->axes[d] == NULL ? "" : env->axes[d];
        s->scale[d] = env->scale == NULL || !(env->scale[d] > 0) ? 1 : env->scale[d];
    }
}

static tg_status check_dtype(const plugin_function *p, tg_dtype t, tg_error *err)
{
    char room[16];
    tg_dtype again = {TG_DT_NONE, 0};
    const bool known = t.kind > TG_DT_NONE && t.kind <= TG_DT_RAW && t.kind != TG_DT_STRING &&
                       t.size > 0 && t.size <= 4096;

    if (known && (t.kind == TG_DT_RAW ||
                  (tg_dtype_parse(tg_dtype_name(t, room), &again, NULL) == TG_OK &&
                   again.kind == t.kind && again.size == t.size)))
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "plug-in '%s' wants to make items of kind %d and %" PRIu32
                   " bytes: there is no such type",
                   p->file, (int)t.kind, t.size);
}

static tg_status set_up(plugin_function *p, const tg_function_env *env, tg_error *err)
{
    char message[256] = "";
    tg_plugin_setup s;

    tg_function_plain_facts(&p->f.facts, env);
    fill_setup(&s, env, message);
    if (p->plugin->open != NULL) {
        const int rc = p->plugin->open(&s, &p->state);
        message[sizeof message - 1] = '\0';
        if (rc != 0)
            return tg_fail(err, TG_INVALID, "plug-in '%s' refuses with %d%s%s", p->file, rc,
                           message[0] == '\0' ? "" : ": ", message);
        p->open = true;
    }
    TG_TRY(check_dtype(p, s.out_dtype, err));
    p->f.facts.out_dtype = s.out_dtype;
    p->f.facts.fold = p->plugin->fold != NULL;
    p->f.ops = p->plugin->fold != NULL ? &fold_ops : &plain_ops;
    p->scratch_bytes = s.scratch_bytes > UINT64_MAX / 8 ? UINT64_MAX / 8 : s.scratch_bytes;
    for (uint32_t d = 0; d < s.ndim && d < TG_MAX_NDIM; d++)
        p->f.facts.halo[d] = s.halo[d];
    return TG_OK;
}

tg_status tg_function_open_plugin(tg_function **out, const char *text,
                                  const tg_function_env *env, tg_error *err)
{
    const char *symbol;
    plugin_function *p = tg_calloc(1, sizeof *p);

    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plug-in");
    p->f.ops = &plain_ops;
    tg_status st = split(text, p->file, sizeof p->file, &symbol, err);
    if (st == TG_OK)
        st = load(p, symbol, err);
    if (st == TG_OK)
        st = set_up(p, env, err);
    if (st != TG_OK) {
        free_plugin(&p->f);
        return st;
    }
    *out = &p->f;
    return TG_OK;
}
