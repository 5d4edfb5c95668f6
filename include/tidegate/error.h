/* tidegate/error.h - status codes and error reports. */
#ifndef TG_ERROR_H
#define TG_ERROR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define TG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TG_MUST_USE          __attribute__((warn_unused_result))
#define TG_API               __attribute__((visibility("default")))
#else
#define TG_PRINTF(fmt, args)
#define TG_MUST_USE
#define TG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller can do about a failure decides the code; what a person needs
 * to know about it goes into the message. One line per code: the enum and the
 * name table are generated from this list; new codes go at the end. Exit
 * statuses are the command's. */
#define TG_STATUS_MAP(X)                 \
    X(TG_OK, "ok")                       \
    X(TG_NOT_FOUND, "not found")         \
    X(TG_EXISTS, "already exists")       \
    X(TG_INVALID, "invalid argument")    \
    X(TG_UNSUPPORTED, "not supported")   \
    X(TG_CORRUPT, "corrupt data")        \
    X(TG_IO, "input/output error")       \
    X(TG_NO_MEMORY, "out of memory")     \
    X(TG_OVER_BUDGET, "over the budget") \
    X(TG_CLOSED, "closed")               \
    X(TG_CANCELLED, "cancelled")         \
    X(TG_TIMED_OUT, "timed out")         \
    X(TG_BUSY, "in use")                 \
    X(TG_INCOMPLETE, "incomplete")

typedef enum tg_status {
#define X(code, name) code,
    TG_STATUS_MAP(X)
#undef X
} tg_status;

#define TG_NO_OFFSET UINT64_MAX

/* One failure, owned by the caller. It has no pointers, so it can be copied
 * from a worker thread to the thread that waits, and reporting "out of memory"
 * needs no memory. Zero-initialise it; pass NULL if the code is enough. Look
 * at it only after a call has failed: a call that succeeds need not clear it. */
typedef struct tg_error {
    tg_status code;
    int sys;         /* errno or HTTP status behind the failure, else 0 */
    uint64_t offset; /* byte in the file or value, TG_NO_OFFSET if none */
    char
        key[240]; /* file or key the failure is about, "" if none; a longer one keeps its end */
    char msg[512]; /* one line, no trailing newline; names the file or key too */
} tg_error;

/* The name of a code, such as "corrupt data"; "unknown status" for no code of ours. */
TG_API const char *tg_status_name(tg_status code);

#ifdef __cplusplus
}
#endif
#endif
