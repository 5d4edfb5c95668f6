/* fuzz/fuzz_moldb.c - any bytes as a molecule database, by each set of rules; what comes out is
 * sorted and whole. */
#include "ims/db.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_as(tg_bytes text, tg_moldb_options options)
{
    TG_AUTO_PTR(tg_moldb) db = NULL;
    tg_error e = {0};
    if (tg_moldb_parse(&db, "fuzz", text, &options, NULL, NULL, &e) != TG_OK)
        return;
    for (uint64_t i = 1; i < db->n_formulas; i++)
        if (strcmp(tg_moldb_formula(db, i - 1), tg_moldb_formula(db, i)) >= 0)
            abort();
    if (db->n_formulas == 0 || db->first[db->n_formulas] != db->n_molecules)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int bits = 0; bits < 4; bits++)
        parse_as((tg_bytes){data, size},
                 (tg_moldb_options){.strict = bits & 1, .fixed = (bits & 2) != 0});
    return 0;
}
