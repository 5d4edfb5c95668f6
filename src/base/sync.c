/* base/sync.c - the count of held locks. Knows no lock by name. */
#include "base/sync.h"

_Thread_local int tg_lock_depth;
