/* exec/units.c - dividing work into parts that every machine computes alike. */
#include "exec/exec.h"
#include "tidegate/text.h"

#include <stdlib.h>
#include <string.h>

/* Part p ends before the first unit whose weights up to its middle reach (p + 1) / parts of the
 * whole: a cut lies where it is nearest to even. Whole numbers only, so that no machine rounds
 * otherwise. */
tg_status tg_units_cut(const uint64_t *weights, uint64_t n, uint32_t parts, uint64_t *first,
                       tg_error *err)
{
    __extension__ typedef unsigned __int128 wide;
    wide total = 0, before = 0;
    uint64_t unit = 0;

    if (parts == 0)
        return tg_fail(err, TG_INVALID, "0 parts, want 1 or more");
    for (uint64_t i = 0; i < n; i++)
        total += weights[i];
    /* 2^64 units of 2^64 fill the wide type; times parts they must not overflow it. */
    if (total >> 95 != 0)
        return tg_fail(err, TG_INVALID, "the weights of %llu units are too large together",
                       (unsigned long long)n);
    first[0] = 0;
    for (uint32_t p = 1; p <= parts; p++) {
        while (unit < n && p < parts &&
               (before * 2 + weights[unit]) * parts <= total * 2 * (wide)p && total > 0) {
            before += weights[unit];
            unit++;
        }
        if (total == 0) /* nothing to balance: equal counts */
            unit = (uint64_t)((wide)n * p / parts);
        first[p] = p == parts ? n : unit;
    }
    return TG_OK;
}

/* --- Which part ---------------------------------------------------------- */

/* In this order: an array index says more than the rank within one of its tasks, and an MPI
 * rank more than the number that srun gave the launcher. Never a count or a minimum: they
 * change when a few tasks of an array are submitted again. */
static const struct {
    const char *name;
    uint32_t from;     /* the first index its engine gives */
    const char *unset; /* what it says outside an array; NULL: not set then */
} engines[] = {
    {"SLURM_ARRAY_TASK_ID", 0, NULL},
    {"PBS_ARRAY_INDEX", 0, NULL},
    {"SGE_TASK_ID", 1, "undefined"},
    {"LSB_JOBINDEX", 1, "0"},
    {"OMPI_COMM_WORLD_RANK", 0, NULL},
    {"PMI_RANK", 0, NULL},
    {"PMIX_RANK", 0, NULL},
    {"SLURM_PROCID", 0, NULL},
    {"PARALLEL_SEQ", 1, NULL},
};

/* NULL: the engine has set no index. */
static const char *index_of(size_t i)
{
    const char *value = getenv(engines[i].name); /* NOLINT(concurrency-mt-unsafe): none sets */

    return value != NULL && engines[i].unset != NULL && strcmp(value, engines[i].unset) == 0
               ? NULL
               : value;
}

bool tg_part_in_environment(void)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        if (index_of(i) != NULL)
            return true;
    return false;
}

static tg_status part_from_environment(uint32_t n_parts, uint32_t *part, tg_error *err)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        const char *name = engines[i].name, *value = index_of(i);
        if (value == NULL)
            continue;
        uint64_t index;
        if (tg_parse_u64(value, &index, NULL) != TG_OK || index < engines[i].from ||
            index - engines[i].from >= n_parts)
            return tg_fail(err, TG_INVALID, "%s='%s': want a number from %u to %u", name, value,
                           engines[i].from, engines[i].from + n_parts - 1);
        *part = (uint32_t)(index - engines[i].from);
        return TG_OK;
    }
    return tg_fail(err, TG_INVALID,
                   "part 'auto': no job array or MPI rank in the environment "
                   "(SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX, SGE_TASK_ID, LSB_JOBINDEX, "
                   "OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, SLURM_PROCID, PARALLEL_SEQ)");
}

/* "3/8" -> 3 and 8. */
static bool split_part(const char *text, uint64_t *index, uint64_t *n)
{
    char number[24];
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof number)
        return false;
    memcpy(number, text, (size_t)(slash - text));
    number[slash - text] = '\0';
    return tg_parse_u64(number, index, NULL) == TG_OK &&
           tg_parse_u64(slash + 1, n, NULL) == TG_OK;
}

tg_status tg_part_parse(const char *text, uint32_t n_parts, uint32_t *part, tg_error *err)
{
    uint64_t index, n;
    if (strcmp(text, "auto") == 0)
        return part_from_environment(n_parts, part, err);
    if (!split_part(text, &index, &n))
        return tg_fail(err, TG_INVALID, "part '%s': want i/n, such as 0/%u, or auto", text,
                       n_parts);
    if (n != n_parts)
        return tg_fail(err, TG_INVALID, "part '%s': there are %u parts", text, n_parts);
    if (index >= n)
        return tg_fail(err, TG_INVALID, "part '%s': parts count from 0 to %u", text,
                       n_parts - 1);
    *part = (uint32_t)index;
    return TG_OK;
}
