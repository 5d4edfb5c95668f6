/* region/function_kinds.h - the functions that are not built in, for function.c and their own
 * files: a program's, a plug-in's, a command, a worker. */
#ifndef TG_REGION_FUNCTION_KINDS_H
#define TG_REGION_FUNCTION_KINDS_H

#include "region/function.h"

/* One array of IN's shape and type. */
void tg_function_plain_facts(tg_function_facts *facts, const tg_function_env *env);
/* Call a C function; what it says becomes an error. */
TG_MUST_USE tg_status tg_function_call_fn(tg_region_fn fn, void *user,
                                          const tg_region_call *call, tg_error *err);

TG_MUST_USE tg_status tg_function_open_plugin(tg_function **out, const char *text,
                                              const tg_function_env *env, tg_error *err);
TG_MUST_USE tg_status tg_function_open_exec(tg_function **out, const char *text,
                                            const tg_function_env *env, tg_error *err);
TG_MUST_USE tg_status tg_function_open_worker(tg_function **out, const char *text,
                                              const tg_function_env *env, tg_error *err);

#endif
