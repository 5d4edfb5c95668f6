/* tidegate/tidegate.h - the whole public API. */
#ifndef TG_TIDEGATE_H
#define TG_TIDEGATE_H

#include "tidegate/annotate.h"
#include "tidegate/array.h"
#include "tidegate/cancel.h"
#include "tidegate/checksum.h"
#include "tidegate/dtype.h"
#include "tidegate/error.h"
#include "tidegate/memory.h"
#include "tidegate/ome.h"
#include "tidegate/plugin.h"
#include "tidegate/progress.h"
#include "tidegate/region.h"
#include "tidegate/rois.h"
#include "tidegate/runtime.h"
#include "tidegate/source.h"
#include "tidegate/store.h"
#include "tidegate/stream.h"
#include "tidegate/text.h"
#include "tidegate/tree.h"
#include "tidegate/verify.h"
#include "tidegate/version.h"

#endif
