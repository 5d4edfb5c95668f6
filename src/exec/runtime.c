/* exec/runtime.c - pool, budget and log callback in one handle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity() */
#endif
#include "exec/budget.h"
#include "exec/pool.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct tg_runtime {
    tg_budget *budget;
    tg_pool *pool;
    tg_log_fn log;
    void *log_user;
};

enum { MAX_THREADS = 4096 };

/* Processors this process may use: in a container or a job fewer than the machine has. */
static uint32_t usable_processors(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

tg_status tg_runtime_new(const tg_runtime_options *options, tg_runtime **out, tg_error *err)
{
    tg_runtime_options o = {0};

    if (options != NULL) {
        if (options->size < sizeof o)
            return tg_fail(err, TG_INVALID, "runtime options of %zu bytes, want %zu",
                           options->size, sizeof o);
        o = *options;
    }
    if (o.threads > MAX_THREADS)
        return tg_fail(err, TG_INVALID, "%u threads, at most %d", (unsigned)o.threads,
                       MAX_THREADS);
    TG_AUTO_PTR(tg_runtime) rt = tg_calloc(1, sizeof *rt);
    if (rt == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a runtime");
    rt->log = o.log;
    rt->log_user = o.log_user;
    TG_TRY(tg_budget_new(&rt->budget, o.memory_bytes ? o.memory_bytes : TG_DEFAULT_MEMORY_BYTES,
                         err));
    TG_TRY(tg_pool_new(&rt->pool, o.threads ? o.threads : usable_processors(), err));
    *out = tg_steal(rt);
    return TG_OK;
}

void tg_runtime_free(tg_runtime *rt)
{
    if (rt == NULL)
        return;
    tg_pool_free(rt->pool);
    tg_budget_free(rt->budget);
    tg_free(rt);
}

uint64_t tg_runtime_memory_bytes(const tg_runtime *rt)
{
    return tg_budget_total(rt->budget);
}

uint64_t tg_runtime_memory_used(const tg_runtime *rt)
{
    return tg_budget_used(rt->budget);
}

uint64_t tg_runtime_memory_peak(const tg_runtime *rt)
{
    return tg_budget_peak(rt->budget);
}

uint32_t tg_runtime_threads(const tg_runtime *rt)
{
    return tg_pool_width(rt->pool);
}

tg_budget *tg_runtime_budget(tg_runtime *rt)
{
    return rt->budget;
}

tg_pool *tg_runtime_pool(tg_runtime *rt)
{
    return rt->pool;
}

void tg_runtime_log(tg_runtime *rt, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    TG_ASSERT_UNLOCKED();
    if (rt->log == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    rt->log(rt->log_user, line);
}
