/* Plug-ins as they should not be, for check_functions.py: each is an object of its own name. */
#include "tidegate/plugin.h"

#include <stdio.h>

static int copy_nothing(const tg_region_call *c, void *user)
{
    (void)c;
    (void)user;
    return 0;
}

/* Region 1 fails; the others are filled with 7. */
static int fail_second(const tg_region_call *c, void *user)
{
    uint8_t *out = c->out.data;
    (void)user;
    if (c->roi == 1) {
        (void)snprintf(c->message, 256, "no cell in '%s'", c->name);
        return 42;
    }
    for (uint64_t i = 0; i < c->out.shape[0] * c->out.shape[1]; i++)
        out[i] = 7;
    return 0;
}

static int refuse(tg_plugin_setup *s, void **state)
{
    (void)state;
    (void)snprintf(s->message, 256, "not with %u dimensions", s->ndim);
    return 9;
}

static int odd_type(tg_plugin_setup *s, void **state)
{
    (void)state;
    s->out_dtype = (tg_dtype){TG_DT_FLOAT, 3};
    return 0;
}

static int hungry(tg_plugin_setup *s, void **state)
{
    (void)state;
    s->scratch_bytes = UINT64_MAX;
    return 0;
}

static int fail_fold(const tg_region_view *base, const tg_region_view *patch, uint64_t roi,
                     void *user)
{
    (void)base;
    (void)patch;
    (void)user;
    return roi == 2 ? 5 : 0;
}

extern const tg_plugin newer, older, no_call, refusing, typed, greedy, second, no_fold,
    bad_fold;
extern const uint64_t no_plugin[2];

const uint64_t no_plugin[2] = {1, 2};
const tg_plugin newer = {
    TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION + 1, NULL, copy_nothing, NULL, NULL};
const tg_plugin older = {TG_PLUGIN_MAGIC, 0, NULL, copy_nothing, NULL, NULL};
const tg_plugin no_call = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, NULL, NULL, NULL, NULL};
const tg_plugin refusing = {
    TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, refuse, copy_nothing, NULL, NULL};
const tg_plugin typed = {
    TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, odd_type, copy_nothing, NULL, NULL};
const tg_plugin greedy = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, hungry, copy_nothing, NULL, NULL};
const tg_plugin second = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, NULL, fail_second, NULL, NULL};
const tg_plugin no_fold = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, NULL, copy_nothing, NULL, NULL};
const tg_plugin bad_fold = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, NULL,
                            fail_second,     fail_fold,         NULL};
