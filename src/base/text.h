/* base/text.h - words and numbers that people type, read strictly: the public
 * functions of tidegate/text.h, which this layer implements. */
#ifndef TG_BASE_TEXT_H
#define TG_BASE_TEXT_H

#include "base/error.h"
#include "tidegate/text.h"

#include <stddef.h>
#include <stdint.h>

#endif
