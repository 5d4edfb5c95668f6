/* A command for each region, by `sh -c`, over .npy files in a folder of the run's own. What it
 * writes is believed in nothing: its header, size, type and shape are checked (npy.h). */
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "exec/child.h"
#include "region/function_kinds.h"
#include "region/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

typedef struct exec_function {
    tg_function f;
    tg_guard *guard; /* removes the folder, too */
    int dir;
    uint64_t timeout_ms;
    char *command;
    char folder[480];
} exec_function;

/* --- Words for the command -----------------------------------------------------------------
 */

static bool is_plain(const char *path)
{
    for (; *path != '\0'; path++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+",
                   *path) == NULL)
            return false;
    return true;
}

/* Quoted for sh where it must be: so `{in}` within quotes of the user's is a path, too. */
static void add_path(tg_text *t, const char *path)
{
    if (is_plain(path)) {
        tg_text_add(t, path);
        return;
    }
    tg_text_add(t, "'");
    for (; *path != '\0'; path++)
        if (*path == '\'')
            tg_text_add(t, "'\\''");
        else
            tg_text_add_n(t, path, 1);
    tg_text_add(t, "'");
}

static void add_command(tg_text *t, const char *command, const char *in, const char *out)
{
    while (*command != '\0') {
        const bool is_in = strncmp(command, "{in}", 4) == 0;
        const bool is_out = strncmp(command, "{out}", 5) == 0;
        if (is_in || is_out)
            add_path(t, is_in ? in : out);
        else
            tg_text_add_n(t, command, 1);
        command += is_in ? 4 : is_out ? 5 : 1;
    }
}

/* NAME=1,2,3 and a NUL. */
static void add_list(tg_text *t, const char *name, const uint64_t *list, uint32_t n)
{
    tg_text_addf(t, "TIDEGATE_%s=", name);
    for (uint32_t d = 0; d < n; d++)
        tg_text_addf(t, "%s%" PRId64, d == 0 ? "" : ",", (int64_t)list[d]);
    tg_text_add_n(t, "", 1);
}

#define N_VARIABLES 9

/* What a call is about, as environment variables. */
static void add_variables(tg_text *t, const tg_region_call *c)
{
    add_list(t, "ROI", &c->roi, 1);
    add_list(t, "ROIS", &c->n_rois, 1);
    add_list(t, "LABEL", &c->label, 1);
    add_list(t, "IN_START", c->in_start, c->in.ndim);
    add_list(t, "OUT_START", c->out_start, c->out.ndim);
    add_list(t, "BEFORE", c->before, c->in.ndim);
    add_list(t, "REGION", c->region, c->in.ndim);
    tg_text_addf(t, "TIDEGATE_NAME=%s", c->name);
    tg_text_add_n(t, "", 1);
    tg_text_add(t, "TIDEGATE_SCALE=");
    for (uint32_t d = 0; d < c->in.ndim; d++)
        tg_text_addf(t, "%s%.17g", d == 0 ? "" : ",", c->scale[d]);
    tg_text_add_n(t, "", 1);
}

/* Ours, and the call's; *list is the caller's, and points into `words`. */
static tg_status make_environment(char ***list, tg_text *words, const tg_region_call *c,
                                  tg_error *err)
{
    size_t n = 0, used = 0;

    add_variables(words, c);
    TG_TRY(tg_text_status(words, err));
    while (environ[n] != NULL)
        n++;
    char **env = tg_calloc(n + N_VARIABLES + 1, sizeof *env);
    if (env == NULL)
        return tg_fail(err, TG_NO_MEMORY, "environment of a command");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TIDEGATE_", 9) != 0)
            env[used++] = environ[i];
    for (size_t at = 0; at < words->len; at += strlen(words->data + at) + 1)
        env[used++] = words->data + at;
    *list = env;
    return TG_OK;
}

/* --- A call --------------------------------------------------------------------------------
 */

static tg_status run_command(exec_function *x, const char *command, char *const *env,
                             const tg_cancel *cancel, tg_error *err)
{
    tg_child_status how = {.known = false};
    char words[400];
    tg_child c;

    TG_TRY(tg_child_start(&c, x->guard, command, env, NULL, 0, err));
    const tg_child_event event =
        tg_child_wait(&c, -1, tg_child_deadline(x->timeout_ms), cancel);
    tg_child_end(&c, &how);
    if (event == TG_CHILD_CANCELLED)
        return tg_fail(err, TG_CANCELLED, "stopped");
    if (event == TG_CHILD_LATE)
        return tg_fail(err, TG_TIMED_OUT,
                       "the command has not ended after %" PRIu64 " ms and is killed",
                       x->timeout_ms);
    if (how.known && !how.signaled && how.code == 0)
        return TG_OK;
    tg_child_describe(&c, &how, words, sizeof words);
    return tg_fail(err, TG_IO, "the command %s", words);
}

static tg_status run_on_files(exec_function *x, const tg_region_call *call, const char *in,
                              const char *out, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) command = {0};
    TG_AUTO(tg_text) words = {0};
    TG_AUTO(tg_mem_ptr) list = NULL;
    TG_AUTO(tg_mem_ptr) room = tg_alloc(TG_NPY_HEADER_MAX);
    char in_path[540], out_path[540];
    char **env = NULL;

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a command's output");
    (void)snprintf(in_path, sizeof in_path, "%s/%s", x->folder, in);
    (void)snprintf(out_path, sizeof out_path, "%s/%s", x->folder, out);
    add_command(&command, x->command, in_path, out_path);
    TG_TRY(tg_text_status(&command, err));
    TG_TRY(make_environment(&env, &words, call, err));
    list = env;
    TG_TRY(tg_npy_write(x->dir, in, &call->in, err));
    TG_TRY(run_command(x, command.data, env, cancel, err));
    tg_status st = tg_npy_read(x->dir, out, &call->out, room, err);
    if (st == TG_NOT_FOUND)
        return tg_fail(err, TG_NOT_FOUND, "the command has made no {out}");
    if (st != TG_OK)
        tg_error_prefix(err, "{out} of the command");
    return st;
}

static tg_status call_exec(tg_function *f, const tg_region_call *call, uint32_t slot,
                           const tg_cancel *cancel, tg_error *err)
{
    exec_function *x = (exec_function *)f;
    char in[32], out[32];

    (void)snprintf(in, sizeof in, "in-%" PRIu32 ".npy", slot);
    (void)snprintf(out, sizeof out, "out-%" PRIu32 ".npy", slot);
    tg_status st = run_on_files(x, call, in, out, cancel, err);
    /* That the next call of the slot finds nothing of this one. */
    (void)tg_sys_unlink(x->dir, in, 0);
    if (tg_sys_unlink(x->dir, out, 0) != 0 && errno != ENOENT && st == TG_OK)
        return tg_fail_errno(err, "remove %s/%s", x->folder, out);
    return st;
}

static uint64_t scratch_of_exec(const tg_function *f, const tg_shape *in, const tg_shape *out)
{
    (void)f;
    (void)in;
    (void)out;
    return TG_NPY_HEADER_MAX + 64;
}

static void free_exec(tg_function *f)
{
    exec_function *x = (exec_function *)f;

    tg_guard_free(x->guard);
    if (x->dir >= 0)
        (void)tg_sys_close(x->dir);
    tg_free(x->command);
    tg_free(x);
}

static const tg_function_ops exec_ops = {call_exec, scratch_of_exec, NULL, free_exec, NULL,
                                         NULL};

/* --- Opening -------------------------------------------------------------------------------
 */

/* A folder that nobody else may look into, below TMPDIR or /tmp. */
static tg_status make_folder(exec_function *x, tg_error *err)
{
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
    int rc = -1;

    if (tmp == NULL || tmp[0] == '\0')
        tmp = "/tmp";
    for (uint64_t i = 0; rc != 0 && i < 1000; i++) {
        const int n = snprintf(x->folder, sizeof x->folder, "%s/tidegate-%d-%" PRIx64, tmp,
                               (int)getpid(), (uint64_t)tg_clock_utc_ns() + i);
        if (n < 0 || (size_t)n >= sizeof x->folder)
            return tg_fail(err, TG_INVALID, "TMPDIR is too long");
        rc = tg_sys_mkdir(AT_FDCWD, x->folder, 0700);
        if (rc != 0 && errno != EEXIST)
            break;
    }
    if (rc != 0)
        return tg_fail_errno(err, "make the folder %s", x->folder);
    x->dir = tg_sys_open(AT_FDCWD, x->folder, O_RDONLY | O_DIRECTORY, 0);
    tg_status st = x->dir < 0 ? tg_fail_errno(err, "open the folder %s", x->folder)
                              : tg_guard_new(&x->guard, x->folder, err);
    if (st != TG_OK)
        (void)tg_sys_unlink(AT_FDCWD, x->folder, AT_REMOVEDIR);
    return st;
}

tg_status tg_function_open_exec(tg_function **out, const char *text, const tg_function_env *env,
                                tg_error *err)
{
    if (strstr(text, "{in}") == NULL || strstr(text, "{out}") == NULL)
        return tg_fail(err, TG_INVALID,
                       "command '%.200s': want {in} and {out} in it, where the paths of the "
                       ".npy files go",
                       text);
    exec_function *x = tg_calloc(1, sizeof *x);
    if (x == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a command");
    x->f.ops = &exec_ops;
    x->dir = -1;
    x->timeout_ms = env->timeout_ms;
    tg_function_plain_facts(&x->f.facts, env);
    x->f.facts.out_dtype = env->wanted != NULL ? *env->wanted : env->in_dtype;
    x->f.facts.outside = true;
    x->command = tg_strdup(text);
    tg_status st = x->command == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for a command")
                                      : make_folder(x, err);
    if (st != TG_OK) {
        free_exec(&x->f);
        return st;
    }
    *out = &x->f;
    return TG_OK;
}
