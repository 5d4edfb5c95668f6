/* region/policy.c - the names of the policies and what each asks of the order of folding. */
#include "base/mem.h"
#include "region/plan.h"

#include <string.h>

static const char *const names[] = {
    [TG_POLICY_ERROR] = "error",   [TG_POLICY_LAST] = "last",       [TG_POLICY_FIRST] = "first",
    [TG_POLICY_MAX] = "max",       [TG_POLICY_MIN] = "min",         [TG_POLICY_OR] = "or",
    [TG_POLICY_AND] = "and",       [TG_POLICY_SUM] = "sum",         [TG_POLICY_MEAN] = "mean",
    [TG_POLICY_BLEND] = "blend",   [TG_POLICY_NONZERO] = "nonzero", [TG_POLICY_MASK] = "mask",
    [TG_POLICY_LABELS] = "labels", [TG_POLICY_USER] = "user",
};
enum { N_POLICIES = sizeof names / sizeof names[0] };

tg_status tg_policy_parse(const char *name, tg_policy *out, tg_error *err)
{
    for (int i = 0; i < N_POLICIES; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (tg_policy)i;
            return TG_OK;
        }
    return tg_fail(err, TG_INVALID,
                   "policy '%s': want error, last, first, max, min, or, and, sum, mean, blend, "
                   "nonzero, mask, labels or user",
                   name);
}

const char *tg_policy_name(tg_policy p)
{
    return names[p];
}

bool tg_policy_ordered(tg_policy p, tg_dtype out_dtype)
{
    bool inexact = out_dtype.kind == TG_DT_FLOAT || out_dtype.kind == TG_DT_COMPLEX;
    switch (p) {
    case TG_POLICY_SUM:
    case TG_POLICY_MEAN:
        return inexact;
    case TG_POLICY_BLEND:
    case TG_POLICY_NONZERO:
    case TG_POLICY_MASK: /* two regions may have one label, outlines may overlap */
    case TG_POLICY_USER:
        return true;
    case TG_POLICY_ERROR:
    case TG_POLICY_LAST:
    case TG_POLICY_FIRST:
    case TG_POLICY_MAX:
    case TG_POLICY_MIN:
    case TG_POLICY_OR:
    case TG_POLICY_AND:
    case TG_POLICY_LABELS:
        return false;
    }
    return true;
}

bool tg_plan_is_ordered(const tg_plan_facts *f)
{
    return tg_policy_ordered(f->policy, f->out.dtype) &&
           !(f->policy == TG_POLICY_MASK && f->mask_apart);
}

bool tg_policy_keeps_base(tg_policy p)
{
    return p == TG_POLICY_NONZERO || p == TG_POLICY_MASK || p == TG_POLICY_USER;
}
