/* exec/pool.h - making the pool; what jobs call is in exec.h. */
#ifndef TG_EXEC_POOL_H
#define TG_EXEC_POOL_H

#include "exec/exec.h"

/* A pool whose width is n_threads: n_threads - 1 threads and whoever calls. */
TG_MUST_USE tg_status tg_pool_new(tg_pool **out, uint32_t n_threads, tg_error *err);
void tg_pool_free(tg_pool *p); /* no call may be running; may be NULL */

/* Run fn(user, worker) once on the calling thread (worker 0) and on as many of the pool's
 * threads as are free now, each with a worker number of its own; returns when all have
 * returned. What tg_pool_each() and the pipeline are made of. */
void tg_pool_gang(tg_pool *p, void (*fn)(void *user, uint32_t worker), void *user);

#endif
