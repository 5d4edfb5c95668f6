/* exec/budget.h - making the budget; what jobs call is in exec.h. */
#ifndef TG_EXEC_BUDGET_H
#define TG_EXEC_BUDGET_H

#include "exec/exec.h"

TG_MUST_USE tg_status tg_budget_new(tg_budget **out, uint64_t bytes, tg_error *err);
void tg_budget_free(tg_budget *b); /* may be NULL */
uint64_t tg_budget_peak(const tg_budget *b);

#endif
