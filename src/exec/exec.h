/* exec/exec.h - everything that waits or divides: budget, pool, ordered
 * pipeline, units of work, progress. Knows nothing above base.
 *
 * Memory is admitted, not counted: what work needs is reserved once, before it
 * starts, in the serial step that hands work out, and given back when its result
 * was consumed. A worker never waits for memory. */
#ifndef TG_EXEC_EXEC_H
#define TG_EXEC_EXEC_H

#include "base/mem.h"
#include "base/sync.h"
#include "tidegate/cancel.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"

TG_DEFINE_AUTO_PTR(tg_runtime, tg_runtime_free)

/* --- Budget -------------------------------------------------------------- */

typedef struct tg_budget tg_budget;

tg_budget *tg_runtime_budget(tg_runtime *rt);
/* Take bytes now. TG_OVER_BUDGET if they are not free; the message says what they are for, how
 * many are wanted, how many are free and how many there are in all. */
TG_MUST_USE tg_status tg_budget_reserve(tg_budget *b, uint64_t bytes, const char *what,
                                        tg_error *err);
/* The same, waiting until others give back; only for the serial step of a job. TG_OVER_BUDGET
 * at once if it can never be, that is if bytes > total - held (held: what this job itself holds
 * for good and will not give back meanwhile). */
TG_MUST_USE tg_status tg_budget_wait(tg_budget *b, uint64_t bytes, uint64_t held,
                                     const char *what, const tg_cancel *cancel, tg_error *err);
/* Waiters are served in the order in which they came, except one that cannot be served before a
 * job that waits behind it has ended. tg_budget_reserve() does not queue. */
void tg_budget_release(tg_budget *b, uint64_t bytes);
uint64_t tg_budget_total(const tg_budget *b);
uint64_t tg_budget_used(const tg_budget *b);
/* The most that was reserved at once since the last call of this: of a stage of one job. */
uint64_t tg_budget_stage_peak(tg_budget *b);

/* --- Pool ---------------------------------------------------------------- */

typedef struct tg_pool tg_pool;
tg_pool *tg_runtime_pool(tg_runtime *rt);

/* Run fn(user, i, worker) for i in [0, n) on the pool and the calling thread; returns when all
 * have ended. worker is in [0, tg_pool_width()), and no two calls of one loop with the same
 * worker overlap. The first failure wins, no new i is begun after it, and *err is a copy of it.
 * fn is called with no lock held. */
typedef tg_status (*tg_each_fn)(void *user, uint64_t i, uint32_t worker, tg_error *err);
TG_MUST_USE tg_status tg_pool_each(tg_pool *p, uint64_t n, tg_each_fn fn, void *user,
                                   const tg_cancel *cancel, tg_error *err);
uint32_t tg_pool_width(const tg_pool *p); /* threads of the pool + the caller */

/* Long-lived threads of a job (a writer, a committer): counted, named, joined. */
typedef struct tg_thread tg_thread;
TG_MUST_USE tg_status tg_thread_start(tg_thread **out, const char *name, void (*fn)(void *user),
                                      void *user, tg_error *err);
void tg_thread_join(tg_thread *t); /* and frees it; may be NULL */

/* --- Bounded queue ------------------------------------------------------- */
/* exec/queue.h */

/* --- Ordered pipeline ---------------------------------------------------- */

/* Items are made by next() in one thread at a time, worked on in parallel, and consumed by
 * sink() in the order in which they were made, in one thread at a time. At most `depth` items
 * exist between next and the end of sink: results that wait for an earlier one count. next() is
 * where memory is reserved; it may wait. An item is the caller's pointer.
 *   - next: TG_OK with *item, or TG_CLOSED at the end; any other status fails the pipeline.
 *   - work: worker as in tg_pool_each().
 *   - sink: the item is its own, also where it fails; it gives the item's memory back.
 *   - drop: called instead of sink, in no order and from any thread, for items that were made
 *     and will not be consumed because the pipeline failed or was cancelled.
 * All are called with no lock held. The first failure wins, and *err is a copy of it; every
 * item has gone to sink or drop on return. */
typedef struct tg_pipeline {
    void *user;
    tg_status (*next)(void *user, void **item, tg_error *err);
    tg_status (*work)(void *user, void *item, uint32_t worker, tg_error *err);
    tg_status (*sink)(void *user, void *item, tg_error *err);
    void (*drop)(void *user, void *item);
    uint32_t depth;
} tg_pipeline;
TG_MUST_USE tg_status tg_pipeline_run(tg_pool *p, const tg_pipeline *pipeline,
                                      const tg_cancel *cancel, tg_error *err);

/* --- Units: weights -> parts -------------------------------------------- */

/* Cut n units of given weights into `parts` contiguous ranges of nearly equal weight:
 * first[part] .. first[part + 1]. The same on every machine. first has parts + 1 places. A part
 * may be empty. */
TG_MUST_USE tg_status tg_units_cut(const uint64_t *weights, uint64_t n, uint32_t parts,
                                   uint64_t *first, tg_error *err);
/* Which of n_parts parts: "3/8" -> 3 (8 must be n_parts); "auto" -> the index of a job array or
 * MPI rank in the environment: SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX, SGE_TASK_ID - 1,
 * LSB_JOBINDEX - 1, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, SLURM_PROCID, PARALLEL_SEQ - 1;
 * the first that is set. Parts count from 0. TG_INVALID says what was wanted. */
TG_MUST_USE tg_status tg_part_parse(const char *text, uint32_t n_parts, uint32_t *part,
                                    tg_error *err);
bool tg_part_in_environment(void); /* does "auto" find anything there, right or wrong? */

/* --- Progress ------------------------------------------------------------ */

/* Hands reports to the callback at most every 100 ms, from whichever thread adds, one at a time
 * and with no lock held; rates over the last 5 s. With no callback *out is NULL, which all
 * calls take. Any thread may add and set. */
typedef struct tg_reporter tg_reporter;
TG_MUST_USE tg_status tg_reporter_new(tg_reporter **out, tg_progress_fn fn, void *user,
                                      const char *stage, uint64_t total, tg_error *err);
void tg_reporter_add(tg_reporter *r, uint64_t done, uint64_t bytes);
/* Reports with these values now, if it is time or `force`. done and bytes replace what was
 * added; stage NULL and total 0 keep what was. */
void tg_reporter_set(tg_reporter *r, const tg_progress *values, bool force);
void tg_reporter_free(tg_reporter *r); /* reports once more */
TG_DEFINE_AUTO_PTR(tg_reporter, tg_reporter_free)

void tg_runtime_log(tg_runtime *rt, const char *fmt, ...) TG_PRINTF(2, 3);

#endif
