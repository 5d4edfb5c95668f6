/* ims/db.h - a molecule database: its formulas, each once, and the molecules that have it.
 *
 * CSV or TSV, judged by the header line. Only the column `formula` is needed (`sf` is taken for
 * it); `id` and `name` are used where they are there. */
#ifndef TG_IMS_DB_H
#define TG_IMS_DB_H

#include "exec/exec.h"
#include "store/store.h"

typedef struct tg_moldb_options {
    bool strict; /* METASPACE's upload rules: any broken row refuses the file */
    bool fixed;  /* formulas are read by the fixed reader: rows that it refuses are left out */
} tg_moldb_options;

typedef struct tg_molecule {
    const char *formula, *id, *name; /* id and name "" where there is none */
    uint64_t line;                   /* in the file, from 1 */
} tg_molecule;

#define TG_MOLDB_NOTES 20 /* told in words; the others are only counted */

typedef struct tg_moldb {
    char *name;             /* of the file, without folder and extension */
    tg_molecule *molecules; /* by formula (bytes), then line */
    uint64_t n_molecules;
    uint64_t *first; /* of each formula in molecules; n_formulas + 1 places */
    uint64_t n_formulas;
    uint64_t bytes;
    uint32_t crc32c;  /* of the file */
    uint64_t n_notes; /* rows that were left out or read in an odd way */
    tg_text notes;    /* a line each */
    char *pool;
    tg_budget *budget;
    uint64_t reserved;
} tg_moldb;

/* limit: most bytes of the file. budget may be NULL. TG_CORRUPT: no column formula, no row; or,
 * strict: what the rules refuse, every row's fault by line in *notes (may be NULL) and the
 * first in the message. */
TG_MUST_USE tg_status tg_moldb_open(tg_moldb **out, const char *url,
                                    const tg_moldb_options *options, tg_budget *budget,
                                    tg_text *notes, const tg_cancel *cancel, tg_error *err);
/* From text; name is kept as a copy. */
TG_MUST_USE tg_status tg_moldb_parse(tg_moldb **out, const char *name, tg_bytes text,
                                     const tg_moldb_options *options, tg_budget *budget,
                                     tg_text *notes, tg_error *err);
void tg_moldb_free(tg_moldb *db);
TG_DEFINE_AUTO_PTR(tg_moldb, tg_moldb_free)

static inline const char *tg_moldb_formula(const tg_moldb *db, uint64_t i)
{
    return db->molecules[db->first[i]].formula;
}

#endif
