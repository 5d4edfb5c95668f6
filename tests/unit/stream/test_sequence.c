/* Frame numbers: every sentence of sequence.h as a table of ids and what becomes of them. */
#include "check.h"
#include "stream/sequence.h"

enum { OK = TG_SEQUENCE_OK, REP = TG_SEQUENCE_REPEATED, BACK = TG_SEQUENCE_BACKWARD };
enum { RESET = TG_SEQUENCE_RESET, END = 99 };

struct step_row {
    uint64_t id;
    int event;
    uint64_t sequence, gap;
};

struct series {
    const char *name;
    tg_id_kind ids;
    uint64_t max_gap;
    bool jumps;
    struct step_row step[12];
};

static const struct series series[] = {
    {"no ids: counted", TG_ID_NONE, 0, false, {{5, OK, 0, 0}, {5, OK, 1, 0}, {.event = END}}},
    {"T31: a gap of two",
     TG_ID_64,
     0,
     false,
     {{0, OK, 0, 0},
      {1, OK, 1, 0},
      {2, OK, 2, 0},
      {5, OK, 5, 2},
      {6, OK, 6, 0},
      {.event = END}}},
    {"64-bit ids are taken as they are",
     TG_ID_64,
     0,
     false,
     {{70000, OK, 70000, 0}, {70001, OK, 70001, 0}, {.event = END}}},
    {"T41: the wrap is no gap",
     TG_ID_GIGE_16,
     0,
     false,
     {{65534, OK, 65534, 0},
      {65535, OK, 65535, 0},
      {1, OK, 65536, 0},
      {2, OK, 65537, 0},
      {.event = END}}},
    {"T41: one lost at the wrap",
     TG_ID_GIGE_16,
     0,
     false,
     {{65535, OK, 65535, 0}, {2, OK, 65537, 1}, {.event = END}}},
    {"T41: the last and the first lost",
     TG_ID_GIGE_16,
     0,
     false,
     {{65534, OK, 65534, 0}, {2, OK, 65537, 2}, {.event = END}}},
    {"T42: duplicate and backward, 64 bits",
     TG_ID_64,
     0,
     false,
     {{7, OK, 7, 0},
      {8, OK, 8, 0},
      {8, REP, 8, 0},
      {6, BACK, 6, 0},
      {9, OK, 9, 0},
      {.event = END}}},
    {"T42: duplicate and backward, 16 bits",
     TG_ID_GIGE_16,
     0,
     false,
     {{7, OK, 7, 0},
      {8, OK, 8, 0},
      {8, REP, 8, 0},
      {6, BACK, 6, 0},
      {9, OK, 9, 0},
      {.event = END}}},
    {"backward over the wrap",
     TG_ID_GIGE_16,
     0,
     false,
     {{65535, OK, 65535, 0},
      {1, OK, 65536, 0},
      {65535, BACK, 65535, 0},
      {2, OK, 65537, 0},
      {.event = END}}},
    {"backward beyond the beginning",
     TG_ID_GIGE_16,
     0,
     false,
     {{2, OK, 2, 0}, {60000, BACK, 0, 0}, {3, OK, 3, 0}, {.event = END}}},
    {"T43: begins anew at 1, 64 bits",
     TG_ID_64,
     0,
     false,
     {{500, OK, 500, 0}, {1, RESET, 501, 0}, {2, OK, 502, 0}, {4, OK, 504, 1}, {.event = END}}},
    {"T43: begins anew at 0, 64 bits",
     TG_ID_64,
     0,
     false,
     {{500, OK, 500, 0}, {0, RESET, 501, 0}, {1, OK, 502, 0}, {.event = END}}},
    {"T43: begins anew at 1, 16 bits",
     TG_ID_GIGE_16,
     0,
     false,
     {{500, OK, 500, 0}, {1, RESET, 501, 0}, {2, OK, 502, 0}, {.event = END}}},
    {"backward after a reset",
     TG_ID_64,
     0,
     false,
     {{500, OK, 500, 0},
      {1, RESET, 501, 0},
      {4, OK, 504, 2},
      {3, BACK, 503, 0},
      {.event = END}}},
    {"a jump of exactly max_gap",
     TG_ID_64,
     10,
     false,
     {{3, OK, 3, 0}, {13, OK, 13, 9}, {.event = END}}},
    {"a jump beyond, compact",
     TG_ID_64,
     10,
     true,
     {{3, OK, 3, 0}, {1000000000003, OK, 1000000000003, 999999999999}, {.event = END}}},
    {"max_gap is at most half the 16-bit circle",
     TG_ID_GIGE_16,
     60000,
     false,
     {{3, OK, 3, 0}, {32770, OK, 32770, 32766}, {65000, OK, 65000, 32229}, {.event = END}}},
};

static void steps_mean_what_the_header_says(void)
{
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        const struct series *r = &series[i];
        test_row = r->name;
        tg_sequence s;
        tg_sequence_init(&s, r->ids, r->max_gap, r->jumps);
        for (const struct step_row *want = r->step; want->event != END; want++) {
            tg_sequence_step got = {0};
            CHECK_STATUS(tg_sequence_next(&s, want->id, &got, NULL), TG_OK);
            CHECK_U64(got.event, (uint64_t)want->event);
            CHECK_U64(got.sequence, want->sequence);
            CHECK_U64(got.gap, want->gap);
        }
    }
    test_row = "";
}

static void three_wraps_count_through(void)
{
    tg_sequence s;
    tg_sequence_init(&s, TG_ID_GIGE_16, 0, false);
    uint64_t bad = 0;
    for (uint64_t n = 1; n <= 4 * 65535; n++) {
        tg_sequence_step step = {0};
        CHECK_STATUS(tg_sequence_next(&s, (n - 1) % 65535 + 1, &step, NULL), TG_OK);
        bad += step.sequence != n || step.gap != 0 || step.event != TG_SEQUENCE_OK;
    }
    CHECK_U64(bad, 0);
}

static void hostile_jump_names_both_ids(void)
{
    tg_sequence s;
    tg_sequence_init(&s, TG_ID_64, 0, false);
    tg_sequence_step step = {0};
    tg_error err = {0};
    CHECK_STATUS(tg_sequence_next(&s, 41, &step, NULL), TG_OK);
    CHECK_STATUS(tg_sequence_next(&s, 1000000000041, &step, &err), TG_INVALID);
    CHECK(strstr(err.msg, "1000000000041") != NULL);
    CHECK(strstr(err.msg, " 41:") != NULL);
    CHECK(strstr(err.msg, "max-gap 10000") != NULL);
    CHECK_U64(step.sequence, 41); /* outputs unchanged */
    CHECK_STATUS(tg_sequence_next(&s, 42, &step, NULL), TG_OK);
    CHECK_U64(step.sequence, 42);
    CHECK_U64(step.gap, 0);
}

static void sixteen_bit_ids_have_sixteen_bits(void)
{
    tg_sequence s;
    tg_sequence_init(&s, TG_ID_GIGE_16, 0, false);
    tg_sequence_step step = {0};
    CHECK_STATUS(tg_sequence_next(&s, 65536, &step, NULL), TG_INVALID);
}

static void skipped_frames_are_no_gap(void)
{
    static const struct {
        const char *name;
        uint64_t next_id, sequence, gap;
    } rows[] = {
        {"the source counted them", 17, 17, 0},
        {"the source did not", 11, 17, 0},
        {"and two more were lost", 19, 19, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_row = rows[i].name;
        tg_sequence s;
        tg_sequence_init(&s, TG_ID_64, 0, false);
        tg_sequence_step step = {0};
        CHECK_STATUS(tg_sequence_next(&s, 10, &step, NULL), TG_OK);
        CHECK_STATUS(tg_sequence_skip(&s, 6, NULL), TG_OK);
        CHECK_U64(tg_sequence_peek(&s), 17);
        CHECK_STATUS(tg_sequence_next(&s, rows[i].next_id, &step, NULL), TG_OK);
        CHECK_U64(step.sequence, rows[i].sequence);
        CHECK_U64(step.gap, rows[i].gap);
    }
    test_row = "";
}

static void resuming_goes_on_behind_the_last(void)
{
    tg_sequence s;
    tg_sequence_init(&s, TG_ID_64, 0, false);
    tg_sequence_resume(&s, 99);
    tg_sequence_step step = {0};
    CHECK_STATUS(tg_sequence_next(&s, 7000, &step, NULL), TG_OK);
    CHECK_U64(step.event, TG_SEQUENCE_RESET);
    CHECK_U64(step.sequence, 100);
    CHECK_STATUS(tg_sequence_next(&s, 7001, &step, NULL), TG_OK);
    CHECK_U64(step.event, TG_SEQUENCE_OK);
    CHECK_U64(step.sequence, 101);

    tg_sequence_init(&s, TG_ID_NONE, 0, false);
    tg_sequence_resume(&s, 99);
    CHECK_STATUS(tg_sequence_next(&s, 0, &step, NULL), TG_OK);
    CHECK_U64(step.event, TG_SEQUENCE_OK);
    CHECK_U64(step.sequence, 100);
}

static void numbers_never_overflow(void)
{
    tg_sequence s;
    tg_sequence_step step = {0};
    tg_sequence_init(&s, TG_ID_64, 0, true);
    CHECK_STATUS(tg_sequence_next(&s, UINT64_MAX, &step, NULL), TG_INVALID);
    CHECK_STATUS(tg_sequence_next(&s, UINT64_MAX - 1, &step, NULL), TG_OK);
    CHECK_STATUS(tg_sequence_next(&s, UINT64_MAX, &step, NULL), TG_INVALID);
    CHECK_STATUS(tg_sequence_next(&s, 1, &step, NULL), TG_INVALID); /* a reset has no room */
    CHECK_STATUS(tg_sequence_skip(&s, 2, NULL), TG_INVALID);
    tg_sequence_init(&s, TG_ID_NONE, 0, false);
    CHECK_STATUS(tg_sequence_skip(&s, UINT64_MAX, NULL), TG_OK);
    CHECK_STATUS(tg_sequence_skip(&s, 1, NULL), TG_INVALID);
    CHECK_STATUS(tg_sequence_next(&s, 0, &step, NULL), TG_INVALID);
}

static const struct test tests[] = {
    {"steps mean what the header says", steps_mean_what_the_header_says},
    {"three wraps count through", three_wraps_count_through},
    {"hostile jump names both ids", hostile_jump_names_both_ids},
    {"16-bit ids have 16 bits", sixteen_bit_ids_have_sixteen_bits},
    {"skipped frames are no gap", skipped_frames_are_no_gap},
    {"resuming goes on behind the last", resuming_goes_on_behind_the_last},
    {"numbers never overflow", numbers_never_overflow},
};
TEST_MAIN(tests)
