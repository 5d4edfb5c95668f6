/* tests/cli/test_args.c - how words become values: every kind of option, right and wrong. */
#include "check.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/record.h"

#include <math.h>

typedef struct values {
    bool flag;
    const char *text;
    uint64_t size, count, natural;
    double duration, seconds, number;
    cli_extents shape, extents;
    tg_dtype dtype;
    int choice;
    cli_list list;
} values;

#define AT(member) offsetof(values, member)
static const cli_option table[] = {
    {"flag", CLI_FLAG, AT(flag), NULL, ""},
    {"text", CLI_TEXT, AT(text), "TEXT", ""},
    {"size", CLI_SIZE, AT(size), "SIZE", ""},
    {"duration", CLI_DURATION, AT(duration), "T", ""},
    {"seconds", CLI_SECONDS, AT(seconds), "S", ""},
    {"count", CLI_COUNT, AT(count), "N", ""},
    {"natural", CLI_NATURAL, AT(natural), "N", ""},
    {"number", CLI_NUMBER, AT(number), "X", ""},
    {"shape", CLI_SHAPE, AT(shape), "H,W", ""},
    {"extents", CLI_EXTENTS, AT(extents), "A,B,...", ""},
    {"dtype", CLI_DTYPE, AT(dtype), "DTYPE", ""},
    {"choice", CLI_CHOICE, AT(choice), "auto|on|off", ""},
    {"list", CLI_LIST, AT(list), "ITEM", ""},
};

static tg_status parse(int n, const char *const *args, values *v, cli_operands *o,
                       tg_error *err)
{
    const cli_options tables[] = {{table, sizeof table / sizeof table[0]}};
    *v = (values){0};
    return cli_parse(tables, 1, n, args, v, o, err);
}

static void takes_values(void)
{
    const char *args[] = {
        "--flag",   "--text=a=b",  "IN",  "--size",       "1.5GiB",     "--duration",
        "500ms",    "--seconds",   "2",   "--count=3",    "--natural",  "0",
        "--number", "-0.0",        "OUT", "--shape",      "772,1032",   "--extents",
        "1,2,3",    "--dtype",     "u16", "--choice=off", "--list=one", "--list",
        "two",      "--number=25", "-",   "--",           "--flag"};
    values v;
    cli_operands o;
    tg_error err = {0};
    /* A number above 0 is wanted: minus zero is none. */
    CHECK_STATUS(parse(sizeof args / sizeof args[0], args, &v, &o, &err), TG_INVALID);
    args[13] = "1e3";
    REQUIRE_OK(parse(sizeof args / sizeof args[0], args, &v, &o, &err));
    CHECK(v.flag && strcmp(v.text, "a=b") == 0);
    CHECK_U64(v.size, (uint64_t)3 << 29);
    CHECK(v.duration == 0.5 && v.seconds == 2 && v.number == 25);
    CHECK_U64(v.count, 3);
    CHECK_U64(v.natural, 0);
    CHECK_U64(v.shape.n, 2);
    CHECK_U64(v.shape.v[1], 1032);
    CHECK_U64(v.extents.n, 3);
    CHECK(v.dtype.kind == TG_DT_UINT && v.dtype.size == 2 && v.choice == 2);
    CHECK(v.list.n == 2 && strcmp(v.list.item[1], "two") == 0);
    CHECK_U64(o.n, 4);
    CHECK(strcmp(o.item[2], "-") == 0 && strcmp(o.item[3], "--flag") == 0);
}

static void refuses_with_words(void)
{
    static const struct {
        const char *args[3];
        const char *words; /* in the message */
    } rows[] = {
        {{"--sizes", "1"}, "did you mean --size?"},
        {{"--shap=1,2"}, "did you mean --shape?"},
        {{"--dtpye", "u8"}, "did you mean --dtype?"},
        {{"--nonsense"}, "unknown option '--nonsense' (--help"},
        {{"-x"}, "unknown option '-x'"},
        {{"--=3"}, "unknown option"},
        {{"---flag"}, "unknown option '---flag': did you mean --flag?"},
        {{"--flag=yes"}, "--flag: takes no value"},
        {{"--size"}, "--size needs a value: --size SIZE"},
        {{"--size", "--flag"}, "--size needs a value"},
        {{"--size", "256M"}, "256MiB"},
        {{"--size", "1GB"}, "GiB"},
        {{"--size", "0"}, "got 0 bytes"},
        {{"--size", "-1"}, "--size"},
        {{"--size", "99999999999999TiB"}, "--size"},
        {{"--size", "NaN"}, "--size"},
        {{"--size", ""}, "--size"},
        {{"--duration", "5"}, "5s"},
        {{"--duration", "-5s"}, "--duration"},
        {{"--duration", "0s"}, "--duration"},
        {{"--seconds", "nan"}, "--seconds"},
        {{"--seconds", "inf"}, "--seconds"},
        {{"--seconds", "0"}, "--seconds"},
        {{"--count", "0"}, "want 1 or more"},
        {{"--count", "1e3"}, "--count"},
        {{"--count", "18446744073709551616"}, "--count"},
        {{"--count", " 1"}, "--count"},
        {{"--natural", "-1"}, "--natural"},
        {{"--number", "1e999"}, "--number"},
        {{"--number", "0x10"}, "--number"},
        {{"--shape", "1032x772"}, "want H,W: height first"},
        {{"--shape", "772"}, "want H,W"},
        {{"--shape", "1,2,3"}, "want H,W"},
        {{"--shape", "0,5"}, "want H,W"},
        {{"--shape", "-1,5"}, "want H,W"},
        {{"--shape", "1,"}, "want H,W"},
        {{"--extents", "1,,2"}, "--extents"},
        {{"--extents", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"},
         "more than 32"},
        {{"--dtype", "uint17"}, "--dtype"},
        {{"--dtype", ""}, "--dtype"},
        {{"--choice", "maybe"}, "got 'maybe', want auto|on|off"},
        {{"--choice", "o"}, "want auto|on|off"},
        {{"--text", ""}, "--text: the value is empty"},
        {{"--text", "a\xff"}, "not valid UTF-8"},
        {{"--list", "\xc0\x80"}, "not valid UTF-8"},
        {{""}, "operand 1 is empty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int n = 0;
        while (n < 3 && rows[i].args[n] != NULL)
            n++;
        values v;
        cli_operands o;
        tg_error err = {0};
        test_row = rows[i].words;
        CHECK_STATUS(parse(n, rows[i].args, &v, &o, &err), TG_INVALID);
        CHECK(strstr(err.msg, rows[i].words) != NULL);
        if (strstr(err.msg, rows[i].words) == NULL)
            fprintf(stderr, "  got: %s\n", err.msg);
    }
    test_row = "";
}

static void limits_lists_and_operands(void)
{
    const char *args[CLI_MAX_REPEATS + 1];
    values v;
    cli_operands o;
    tg_error err = {0};
    for (int i = 0; i <= CLI_MAX_REPEATS; i++)
        args[i] = "--list=x";
    CHECK_STATUS(parse(CLI_MAX_REPEATS, args, &v, &o, &err), TG_OK);
    CHECK_STATUS(parse(CLI_MAX_REPEATS + 1, args, &v, &o, &err), TG_INVALID);
    for (int i = 0; i <= CLI_MAX_OPERANDS; i++)
        args[i] = "x";
    CHECK_STATUS(parse(CLI_MAX_OPERANDS, args, &v, &o, &err), TG_OK);
    CHECK_STATUS(parse(CLI_MAX_OPERANDS + 1, args, &v, &o, &err), TG_INVALID);
}

static void every_verb_has_a_whole_table(void)
{
    size_t n = 0;
    for (const cli_verb *v; (v = cli_verb_at(n)) != NULL; n++) {
        test_row = v->name;
        CHECK(v->run != NULL && v->summary[0] != '\0' && v->least <= v->most);
        CHECK(strncmp(v->example, "  tidegate ", 11) == 0);
        CHECK(v->example[strlen(v->example) - 1] == '\n');
        for (size_t i = 0; i < v->n_options; i++) {
            const cli_option *o = &v->options[i];
            CHECK(o->name != NULL && o->help[0] != '\0');
            CHECK((o->kind == CLI_FLAG) == (o->arg == NULL));
            CHECK(o->at >= sizeof(cli_common) && o->at < CLI_OPTIONS_BYTES);
            for (size_t k = 0; k < i; k++)
                CHECK(strcmp(o->name, v->options[k].name) != 0);
        }
    }
    test_row = "";
    CHECK(n >= 12);
    CHECK(sizeof(record_options) <= CLI_OPTIONS_BYTES);
}

/* --- The words of record ----------------------------------------------------- */

static tg_status record_words(const char *const *words, record_layout *l, tg_error *err)
{
    static union {
        record_options o;
        unsigned char room[CLI_OPTIONS_BYTES];
    } options;
    const char *args[8] = {"OUT"};
    int n = 1;
    while (words[n - 1] != NULL && n < 8) {
        args[n] = words[n - 1];
        n++;
    }
    cli_operands operands;
    tg_status st = cli_parse_verb(&cli_record, n, args, &options, &operands, err);
    return st == TG_OK ? record_layout_parse(&options.o, l, err) : st;
}

static void record_takes_words(void)
{
    static const char *const words[] = {"--dims=t=0,c=2,z=10",
                                        "--acquire=t,z,c",
                                        "--scale=t=0.1,z=2,y=.5,x=0.25",
                                        "--unit=t=second,z=micrometer,y=micrometer",
                                        "--shard=64frames",
                                        "--pyramid=3:max",
                                        "--on-full=decimate:4",
                                        NULL};
    static record_layout l;
    tg_error err = {0};
    REQUIRE_OK(record_words(words, &l, &err));
    CHECK_U64(l.array.n_dims, 3);
    CHECK_U64(l.dims[0].extent, 0);
    CHECK_U64(l.dims[2].extent, 10);
    CHECK_U64(l.dims[0].arrival, 0);
    CHECK_U64(l.dims[1].arrival, 2);
    CHECK_U64(l.dims[2].arrival, 1);
    CHECK(l.dims[2].scale == 2 && l.array.scale_y == 0.5 && l.array.scale_x == 0.25);
    CHECK(strcmp(l.dims[0].unit, "second") == 0 && strcmp(l.array.unit, "micrometer") == 0);
    CHECK_U64(l.array.shard_frames, 64);
    CHECK_U64(l.array.pyramid_levels, 3);
    CHECK(l.array.pyramid_method == TG_REDUCE_MAX);
    CHECK(l.has_on_full && l.array.on_full == TG_FULL_DECIMATE && l.array.decimate == 4);
}

static void record_takes_columns(void)
{
    static const char *const words[] = {"--column=gain:int16=-3",
                                        "--column=well:string=A1,\"x",
                                        "--column=power:float32=.5",
                                        "--column=lamp:bool=true",
                                        "--column=note:string",
                                        "--column=big:uint64",
                                        NULL};
    static record_layout l;
    tg_error err = {0};
    REQUIRE_OK(record_words(words, &l, &err));
    CHECK_U64(l.array.n_columns, 6);
    int16_t gain;
    float power;
    memcpy(&gain, l.column_items[0], sizeof gain);
    memcpy(&power, l.column_items[2], sizeof power);
    CHECK(gain == -3 && power == 0.5f);
    CHECK(strcmp(l.column_items[1], "A1,\"x") == 0 && strcmp(l.column_items[4], "") == 0);
    CHECK(*(const unsigned char *)l.column_items[3] == 1 && l.has_column_values);
}

static void record_refuses_words(void)
{
    static const struct {
        const char *words[3], *message;
    } rows[] = {
        {{"--dims=t"}, "--dims: got 't', want NAME=EXTENT"},
        {{"--dims=t=0,t=2"}, "--dims: 't' is named twice"},
        {{"--dims=y=4"}, "--dims: 'y' is named twice"},
        {{"--dims=t=2,z=0"}, "only the first dimension may be without limit"},
        {{"--dims=a=1,b=1,c=1,d=1,e=1,f=1"}, "more than 5"},
        {{"--dims=,"}, "empty"},
        {{"--dims=t=-1"}, "NAME=EXTENT"},
        {{"--dims=t=0,z=3", "--acquire=t"}, "--acquire: names 1 of the 2"},
        {{"--dims=t=0,z=3", "--acquire=t,t"}, "--acquire: 't' is named twice"},
        {{"--acquire=q"}, "'q' is not among --dims"},
        {{"--scale=0"}, "--scale: got '0'"},
        {{"--scale=1,2,3"}, "--scale: want one number, or two"},
        {{"--scale=q=1"}, "there is no dimension 'q'"},
        {{"--scale=nan"}, "--scale"},
        {{"--unit=y=a,x=b"}, "y and x have one unit"},
        {{"--unit=t="}, "names no unit"},
        {{"--shard=12M"}, "12MiB"},
        {{"--shard=0frames"}, "--shard: got '0frames', want a size, none, or Nframes"},
        {{"--shard=99999999999999999999frames"}, "--shard"},
        {{"--pyramid=3"}, "want N:METHOD"},
        {{"--pyramid=0:mean"}, "want N:METHOD"},
        {{"--pyramid=31:mean"}, "want N:METHOD"},
        {{"--pyramid=3:median"}, "got 'median'"},
        {{"--on-full=drop"}, "want block, drop-new"},
        {{"--on-full=decimate"}, "want decimate:K"},
        {{"--on-full=decimate:1"}, "want decimate:K"},
        {{"--ome=0.3"}, "--ome: got '0.3', want 0.5|0.4|none"},
        {{"--create", "--append"}, "exclude each other"},
        {{"--column=a"}, "want NAME:DTYPE"},
        {{"--column=:u8"}, "want NAME:DTYPE"},
        {{"--column=a:complex64=1"}, "a column holds"},
        {{"--column=a:u8=256"}, "no value of its type"},
        {{"--column=a:i8=-129"}, "no value of its type"},
        {{"--column=a:u8", "--column=a:u16"}, "'a' is named twice"},
        {{"--column=a:bool=1"}, "want false|true"},
        {{"--tile=0,1"}, "--tile"},
        {{"--on-gap=skip"}, "want keep|compact"},
        {{"--threads=5000"}, "at most 1024"},
        {{"EXTRA"}, "unexpected operand 'EXTRA'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static record_layout l;
        tg_error err = {0};
        test_row = rows[i].words[0];
        CHECK_STATUS(record_words(rows[i].words, &l, &err), TG_INVALID);
        CHECK(strstr(err.msg, rows[i].message) != NULL);
        if (strstr(err.msg, rows[i].message) == NULL)
            fprintf(stderr, "  got: %s\n", err.msg);
    }
    test_row = "";
}

static void record_names_sources(void)
{
    static const struct {
        const char *word, *name, *spec;
    } rows[] = {
        {"test:4x4:u8", "", "test:4x4:u8"},
        {"a=test:4x4:u8@5", "a", "test:4x4:u8@5"},
        {"cam/left=-", "cam/left", "-"},
        {"./a=b.raw", "", "./a=b.raw"},
        {"a b=c", "", "a b=c"},
        {"/x/a=b", "", "/x/a=b"},
        {"a=aravis:X=Y", "a", "aravis:X=Y"},
        {"..=x", "", "..=x"},
        {"a/../b=x", "", "a/../b=x"},
        {"=x", "", "=x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        record_source s = {0};
        tg_error err = {0};
        test_row = rows[i].word;
        CHECK_STATUS(record_parse_source(rows[i].word, &s, &err), TG_OK);
        CHECK(strcmp(s.name, rows[i].name) == 0 && strcmp(s.spec, rows[i].spec) == 0);
    }
    test_row = "";
    record_source s = {0};
    tg_error err = {0};
    CHECK_STATUS(record_parse_source("a=", &s, &err), TG_INVALID);
}

static const struct test tests[] = {
    {"takes_values", takes_values},
    {"refuses_with_words", refuses_with_words},
    {"limits_lists_and_operands", limits_lists_and_operands},
    {"every_verb_has_a_whole_table", every_verb_has_a_whole_table},
    {"record_takes_words", record_takes_words},
    {"record_takes_columns", record_takes_columns},
    {"record_refuses_words", record_refuses_words},
    {"record_names_sources", record_names_sources},
};
TEST_MAIN(tests)
