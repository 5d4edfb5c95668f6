/* region/commit.h - finished units on their way to OUT: group commits, undo, the journal.
 *
 * A unit is written to a temporary in the run's folder. Once in a while all that wait go
 * through these steps together, in this order: sync of the temporaries; link of what they
 * replace to undo/; rename; sync of directories; journal record "done", synced. So a unit is
 * old or new and whole at any time, and what was "done" before a power cut is so after it. A
 * unit that was renamed but is not "done" is made again from what it replaced. */
#ifndef TG_REGION_COMMIT_H
#define TG_REGION_COMMIT_H

#include "base/journal.h"
#include "exec/exec.h"
#include "region/folder.h"
#include "region/plan.h"
#include "zarr/zarr.h"

#define TG_APPLY_JOURNAL_KIND  0x50414754u /* "TGAP" */
#define TG_APPLY_JOURNAL_MAJOR 1
#define TG_COMMIT_QUEUE        1024

enum {                     /* records of the journal; docs/formats/apply.md */
       TG_APPLY_BEGIN = 1, /* u64 fingerprint, text: a line for each thing that it is made of */
       TG_APPLY_DONE = 2,  /* u32 positions of units */
       TG_APPLY_FAILED = 3, /* u32 region, text: why; skipped for good */
       TG_APPLY_END = 4,    /* all is done, and what is left in the folder is waste */
       TG_APPLY_SIZES = 5   /* u32 positions of units, then u64 bytes of each as stored */
};

typedef struct tg_commit tg_commit;

typedef struct tg_commit_options {
    const tg_folder *folder; /* borrowed, as all here */
    const tg_plan *plan;
    tg_array *out;
    uint32_t part;
    bool finish;    /* the merge of the parts: its own journal */
    bool in_parts;  /* the merge ends the run, not this */
    bool undo;      /* what is replaced is linked to undo/ first */
    bool keep_undo; /* and stays */
    bool hold_undo; /* until tg_commit_drop_undo(): somebody may still read it */
    uint64_t interval_ms;
    /* Units became "done"; from the committer's thread, no lock held. */
    void (*done)(void *user, const uint32_t *units, size_t n);
    void *user;
    void (*log)(void *user, const char *line); /* may be NULL */
} tg_commit_options;

/* What an earlier run of the same part has left. */
typedef struct tg_commit_past {
    uint8_t *done; /* a bit for each unit of the plan; NULL: none */
    uint64_t n_done, n_failed;
    bool begun, ended;
    bool other; /* of other parameters, and ended: all in the folder is waste */
} tg_commit_past;
void tg_commit_past_destroy(tg_commit_past *p);

/* What a result depends on, a line each: behind the fingerprint in a "begin" record. */
void tg_commit_describe(const tg_plan *plan, tg_text *t);
/* Is a "begin" record of this plan? If not, *differs says why. */
TG_MUST_USE tg_status tg_commit_compare(const tg_folder *folder, const tg_plan *plan,
                                        tg_bytes record, tg_error *differs, tg_error *err);

/* The name of a part's journal into room of 32 bytes. */
void tg_commit_journal_name(uint32_t part, bool finish, char *dst);
/* Read it. TG_INVALID: it is another run's; the message says what differs. A failed region is
 * handed to `failed` (may be NULL). */
TG_MUST_USE tg_status tg_commit_replay(const tg_folder *folder, const tg_plan *plan,
                                       uint32_t part, bool finish,
                                       void (*failed)(void *user, uint32_t region), void *user,
                                       tg_commit_past *past, tg_error *err);
/* Is what all parts and their merge have published there, as long as it was? TG_CORRUPT names
 * the first few units that are not. */
TG_MUST_USE tg_status tg_commit_check_published(const tg_folder *folder, const tg_plan *plan,
                                                tg_array *out, tg_error *err);
/* Begin or go on; starts the committer's thread. */
TG_MUST_USE tg_status tg_commit_new(tg_commit **out, const tg_commit_options *options,
                                    const tg_commit_past *past, tg_error *err);
void tg_commit_free(tg_commit *c); /* without a last commit; may be NULL */
TG_DEFINE_AUTO_PTR(tg_commit, tg_commit_free)

/* The name of a unit's temporary, in the folder, into room of 48 bytes. */
void tg_commit_name(const tg_commit *c, uint32_t unit, char *dst);
typedef enum tg_commit_how {
    TG_COMMIT_NEW,    /* the temporary is whole and closed */
    TG_COMMIT_REMOVE, /* there is none: the unit becomes fill value */
    TG_COMMIT_KEEP    /* the unit stays as it is */
} tg_commit_how;
/* `bytes` of a new one. Waits while TG_COMMIT_QUEUE units wait. */
TG_MUST_USE tg_status tg_commit_add(tg_commit *c, uint32_t unit, tg_commit_how how,
                                    uint64_t bytes, tg_error *err);
/* A region that failed and is left out, for good. */
TG_MUST_USE tg_status tg_commit_failed_region(tg_commit *c, uint32_t region, const char *why,
                                              tg_error *err);
/* Commit all that waits, and end the thread. */
TG_MUST_USE tg_status tg_commit_flush(tg_commit *c, tg_error *err);
/* With hold_undo: nobody reads what these units replaced any more. From `done` only. */
TG_MUST_USE tg_status tg_commit_drop_undo(tg_commit *c, const uint32_t *units, size_t n,
                                          tg_error *err);
/* Journal "end" (not of one of several parts) after the last commit, synced. */
TG_MUST_USE tg_status tg_commit_end(tg_commit *c, tg_error *err);
uint64_t tg_commit_count(const tg_commit *c); /* commits so far */

/* "undo/" and the place of the unit, below the folder, into room of TG_UNDO_BYTES; with
 * ".absent" behind it an empty file that says that there was none. */
#define TG_UNDO_BYTES (TG_MAX_NDIM * 21 + 24)
void tg_undo_name(uint32_t ndim, const uint64_t *unit_index, char *dst);
/* Rename all of undo/ back; what had no unit before is removed. The array is then as before the
 * run. */
TG_MUST_USE tg_status tg_undo_all(const tg_folder *folder, tg_array *out, uint64_t *n,
                                  tg_error *err);

#endif
