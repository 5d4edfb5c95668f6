/* What turns the wider translations off. */
#include "base/wider.h"

bool tg_wider_off;
