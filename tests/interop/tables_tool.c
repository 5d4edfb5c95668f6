/* tables_tool - writes one AnnData of known values, for test_tables.py: 10 observations x 7
 * variables, X[i][j] = 0 where (7 i + j) % 3 == 0, else i + j / 8.
 *
 *     tables_tool URL PATH FORMAT dense|csr|csc|none */
#include "store/store.h"
#include "table/anndata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_OBS = 10, N_VAR = 7 };

static double value(int i, int j)
{
    return (N_VAR * i + j) % 3 == 0 ? 0 : i + j / 8.0;
}

static tg_status rows(tg_table *t, const char *prefix, uint64_t n, tg_error *err)
{
    uint64_t offsets[N_OBS + 1] = {0};
    double f[N_OBS];
    int64_t id[N_OBS];
    uint8_t yes[N_OBS];
    TG_AUTO(tg_text) text = {0};

    for (int i = 0; i < (int)n; i++) {
        tg_text_addf(&text, "%s\xc3\xa9%d", prefix, i);
        offsets[i + 1] = text.len;
        f[i] = i / 4.0;
        id[i] = 100 - i;
        yes[i] = i % 2 == 0;
    }
    TG_TRY(tg_text_status(&text, err));
    const tg_table_block b[] = {{.offsets = offsets, .text = text.data},
                                {.items = f},
                                {.items = id},
                                {.offsets = offsets, .text = text.data},
                                {.items = yes}};
    return tg_table_append(t, b, n, NULL, err);
}

static tg_status dense(tg_array *x, tg_error *err)
{
    float row[N_VAR];

    for (int i = 0; i < N_OBS; i++) {
        const uint64_t start[] = {(uint64_t)i, 0}, count[] = {1, N_VAR};
        for (int j = 0; j < N_VAR; j++)
            row[j] = (float)value(i, j);
        TG_TRY(tg_array_write(x, start, count, row, NULL, NULL, err));
    }
    return TG_OK;
}

static tg_status sparse(tg_anndata *a, bool by_row, tg_error *err)
{
    uint64_t begin[2] = {0}, indices[N_OBS];
    float values[N_OBS];

    for (int i = 0; i < (by_row ? N_OBS : N_VAR); i++) {
        begin[1] = 0;
        for (int j = 0; j < (by_row ? N_VAR : N_OBS); j++) {
            const double v = by_row ? value(i, j) : value(j, i);
            indices[begin[1]] = (uint64_t)j;
            values[begin[1]] = (float)v;
            begin[1] += v != 0;
        }
        TG_TRY(tg_anndata_append(a, 1, begin, indices, values, NULL, err));
    }
    return TG_OK;
}

static tg_status make(const char *url, const char *path, int format, const char *x,
                      tg_error *err)
{
    static const tg_table_column columns[] = {{"f", {TG_DT_FLOAT, 8}},
                                              {"id", {TG_DT_INT, 8}},
                                              {"word", {TG_DT_STRING, 0}},
                                              {"yes", {TG_DT_BOOL, 1}}};
    const tg_anndata_options o = {.format = format,
                                  .n_obs = N_OBS,
                                  .n_var = N_VAR,
                                  .x = strcmp(x, "dense") == 0 ? TG_ANNDATA_DENSE
                                       : strcmp(x, "csr") == 0 ? TG_ANNDATA_CSR
                                       : strcmp(x, "csc") == 0 ? TG_ANNDATA_CSC
                                                               : TG_ANNDATA_NO_X,
                                  .x_dtype = {TG_DT_FLOAT, 4},
                                  .chunk = {4, 4},
                                  .obs = columns,
                                  .n_obs_columns = 4,
                                  .var = columns,
                                  .n_var_columns = 4,
                                  .var_index = "ion",
                                  .chunk_rows = 4,
                                  .codec = "zstd:1",
                                  .most_items = format == 2 ? 1000 : 0};
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_OPEN_OR_CREATE};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_anndata) a = NULL;

    TG_TRY(tg_store_open(url, &mode, &store, NULL, err));
    TG_TRY(tg_anndata_create(&a, store, path, &o, NULL, err));
    if (o.x == TG_ANNDATA_DENSE)
        TG_TRY(dense(tg_anndata_dense(a), err));
    else if (o.x != TG_ANNDATA_NO_X)
        TG_TRY(sparse(a, o.x == TG_ANNDATA_CSR, err));
    TG_TRY(rows(tg_anndata_obs(a), "cell", N_OBS, err));
    TG_TRY(rows(tg_anndata_var(a), "ion", N_VAR, err));
    TG_TRY(tg_anndata_close(a, NULL, err));
    return tg_store_close(store, err);
}

int main(int argc, char **argv)
{
    tg_error err = {0};

    if (argc != 5) {
        fprintf(stderr, "usage: tables_tool URL PATH FORMAT dense|csr|csc|none\n");
        return 2;
    }
    if (make(argv[1], argv[2], atoi(argv[3]), argv[4], &err) != TG_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return 0;
}
