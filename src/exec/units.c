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

/* --- parts ------------------------------------------------------------------ */

static const char *variable(const char *name)
{
    /* Read once at the start of a job, by the thread that starts it. */
    const char *v = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return v != NULL && v[0] != '\0' ? v : NULL;
}

static tg_status read_variable(const char *name, const char *text, uint64_t *v, tg_error *err)
{
    tg_status st = tg_parse_u64(text, v, err);
    if (st != TG_OK)
        tg_error_prefix(err, "environment variable %s", name);
    return st;
}

/* Engines number their tasks from 0 or from 1; Slurm from whatever the user said. */
static tg_status index_from_environment(uint64_t *index, const char **source, tg_error *err)
{
    static const struct {
        const char *name;
        uint64_t from;
    } engines[] = {
        {"OMPI_COMM_WORLD_RANK", 0},
        {"PMIX_RANK",            0},
        {"PMI_RANK",             0},
        {"SGE_TASK_ID",          1},
        {"PBS_ARRAY_INDEX",      0},
        {"LSB_JOBINDEX",         1},
        {"PARALLEL_SEQ",         1},
    };
    const char *task = variable("SLURM_ARRAY_TASK_ID"),
               *least = variable("SLURM_ARRAY_TASK_MIN");

    if (task != NULL) {
        uint64_t min = 0;
        *source = "SLURM_ARRAY_TASK_ID";
        if (least != NULL)
            TG_TRY(read_variable("SLURM_ARRAY_TASK_MIN", least, &min, err));
        TG_TRY(read_variable(*source, task, index, err));
        if (*index < min)
            return tg_fail(err, TG_INVALID, "SLURM_ARRAY_TASK_ID is %s, below the least, %s",
                           task, least);
        *index -= min;
        return TG_OK;
    }
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        const char *v = variable(engines[i].name);
        if (v == NULL ||
            strcmp(v, "undefined") == 0) /* as Grid Engine says outside of arrays */
            continue;
        *source = engines[i].name;
        TG_TRY(read_variable(*source, v, index, err));
        if (*index < engines[i].from)
            return tg_fail(err, TG_INVALID, "%s is %s, want %llu or more", *source, v,
                           (unsigned long long)engines[i].from);
        *index -= engines[i].from;
        return TG_OK;
    }
    return tg_fail(
        err, TG_INVALID,
        "part 'auto': no SLURM_ARRAY_TASK_ID, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, "
        "SGE_TASK_ID, PBS_ARRAY_INDEX, LSB_JOBINDEX or PARALLEL_SEQ in the environment");
}

tg_status tg_part_parse(const char *text, uint32_t n_parts, uint32_t *part, tg_error *err)
{
    uint64_t index = 0, of = n_parts;
    const char *slash = strchr(text, '/'), *source = text;

    if (strcmp(text, "auto") == 0) {
        TG_TRY(index_from_environment(&index, &source, err));
    } else {
        char number[24];
        size_t n = slash == NULL ? 0 : (size_t)(slash - text);
        if (slash == NULL || n >= sizeof number)
            return tg_fail(err, TG_INVALID, "part '%s': want i/n, counted from 0, or auto",
                           text);
        memcpy(number, text, n);
        number[n] = '\0';
        TG_TRY(tg_parse_u64(number, &index, err));
        TG_TRY(tg_parse_u64(slash + 1, &of, err));
        if (of != n_parts)
            return tg_fail(err, TG_INVALID, "part '%s': the plan has %u parts", text,
                           (unsigned)n_parts);
    }
    if (index >= n_parts)
        return tg_fail(err, TG_INVALID, "part %llu (%s): the plan has parts 0 to %u",
                       (unsigned long long)index, source, (unsigned)(n_parts - 1));
    *part = (uint32_t)index;
    return TG_OK;
}
