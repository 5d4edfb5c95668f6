/* cli/record.h - the verb record: its options, what they mean for the recorder, the running
 * recording, what is said of it. */
#ifndef TG_CLI_RECORD_H
#define TG_CLI_RECORD_H

#include "cli.h"
#include "tidegate/source.h"
#include "tidegate/stream.h"

/* The words of the command line. */
typedef struct record_options {
    cli_common common;
    cli_list from, camera;
    cli_extents shape;
    tg_dtype dtype;
    double fps, seconds;
    uint64_t frames;

    int format;     /* "zarr3|zarr2" */
    int frame_axis; /* "first|last" */
    const char *dims, *acquire;
    uint64_t chunk_frames;
    cli_extents tile;
    const char *shard;
    bool live;
    const char *codec;
    int checksum; /* "on|off" */
    const char *pyramid;

    const char *ome;
    const char *scale, *unit;
    cli_list channel;
    const char *plate, *meta;
    cli_list column;

    const char *on_full;
    double timeout;
    int on_gap; /* "keep|compact" */
    uint64_t max_gap;
    double commit_interval;
    int direct; /* "auto|on|off" */
    bool create, overwrite, append;
    const char *table, *report;
} record_options;

#define RECORD_N_OPTIONS 36
extern const cli_option record_option_table[];

#define RECORD_MAX_DIMS    5
#define RECORD_MAX_COLUMNS 32
#define RECORD_WORD        64

/* A user column, and the value that every frame gets. */
typedef struct record_column {
    char name[RECORD_WORD];
    const char *text; /* of a string column */
    bool has_value;
    union {
        unsigned char bytes[16];
        uint64_t u;
        double d;
    } value; /* one native item */
} record_column;

/* The layout that all arrays of one recording share, taken from the words. tg_stream_array's
 * pointers lead into this: it must not move. */
typedef struct record_layout {
    tg_stream_array array; /* all but name, dtype, height, width, fps, on_full's default */
    bool has_on_full;
    char dim_names[RECORD_MAX_DIMS][RECORD_WORD], dim_units[RECORD_MAX_DIMS][RECORD_WORD];
    tg_stream_dim dims[RECORD_MAX_DIMS];
    char unit[RECORD_WORD];
    char codec[RECORD_WORD];
    tg_stream_column columns[RECORD_MAX_COLUMNS];
    record_column column_values[RECORD_MAX_COLUMNS];
    const void
        *column_items[RECORD_MAX_COLUMNS]; /* for tg_frame_meta; NULL: no values at all */
    bool has_column_values;
} record_layout;

/* Check every word and take it apart. Reads no file. */
TG_MUST_USE tg_status record_layout_parse(const record_options *o, record_layout *l,
                                          tg_error *err);

#define RECORD_MAX_SOURCES 16

/* One --from. */
typedef struct record_source {
    char name[RECORD_WORD * 2]; /* of the array, "" for the root */
    const char *spec;
    tg_source *source;
    tg_source_info info;
    char *attributes; /* JSON for the array's group, NULL: none; tg_free() */
} record_source;

/* "NAME=SOURCE" or "SOURCE". */
TG_MUST_USE tg_status record_parse_source(const char *word, record_source *s, tg_error *err);

/* A recording from open to close. */
typedef struct recording {
    cli *c;
    const record_options *o;
    record_layout layout;
    tg_runtime *rt;
    record_source source[RECORD_MAX_SOURCES];
    tg_stream_array array[RECORD_MAX_SOURCES];
    tg_stream_stats stats[RECORD_MAX_SOURCES]; /* at the end, if there are several arrays */
    uint32_t n;
    char *meta, *plate; /* files' texts; NULL: none */
    tg_stream *stream;
    tg_stream_report report;
    bool interrupted;     /* by a signal */
    bool source_failed;   /* c->err is a source's failure, all else went well */
    bool short_of_frames; /* an input ended before --frames */
} recording;

/* Run the sources' threads until all have ended. TG_OK, or the first failure in c->err. */
TG_MUST_USE tg_status record_run(recording *r);
/* Members of the JSON object, and the lines for people. */
void record_print(recording *r);
/* The frame tables as one CSV file. */
TG_MUST_USE tg_status record_write_table(recording *r);
/* The HTML report. */
TG_MUST_USE tg_status record_write_report(recording *r);

#endif
