/* Cameras, with the fake GigE Vision camera of Debian's aravis-tools on loopback: the real
 * protocol, features, lost packets. And the names of pixel formats. */
#include "base/clock.h"
#include "check.h"
#include "fake_camera.h"
#include "stream/camera_format.h"
#include "stream/sequence.h"

#include <stdlib.h>

/* --- Pixel formats --------------------------------------------------------- */

static void pixel_formats(void)
{
    static const struct {
        const char *name;
        tg_pixel_format pixels;
        uint32_t size, bits;
        const char *bayer;
    } rows[] = {
        {"Mono8", TG_PIXEL_PLAIN, 1, 8, ""},
        {"Mono10", TG_PIXEL_PLAIN, 2, 10, ""},
        {"Mono12", TG_PIXEL_PLAIN, 2, 12, ""},
        {"Mono14", TG_PIXEL_PLAIN, 2, 14, ""},
        {"Mono16", TG_PIXEL_PLAIN, 2, 16, ""},
        {"Mono10p", TG_PIXEL_MONO10P, 2, 10, ""},
        {"Mono12p", TG_PIXEL_MONO12P, 2, 12, ""},
        {"Mono10Packed", TG_PIXEL_MONO10_PACKED, 2, 10, ""},
        {"Mono12Packed", TG_PIXEL_MONO12_PACKED, 2, 12, ""},
        {"BayerRG8", TG_PIXEL_PLAIN, 1, 8, "RG"},
        {"BayerGB12p", TG_PIXEL_MONO12P, 2, 12, "GB"},
        {"BayerBG10Packed", TG_PIXEL_MONO10_PACKED, 2, 10, "BG"},
        {"BayerGR16", TG_PIXEL_PLAIN, 2, 16, "GR"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_camera_format f = {.pixels = TG_PIXEL_PLAIN};
        test_row = rows[i].name;
        CHECK_STATUS(tg_camera_format_parse(rows[i].name, &f, NULL), TG_OK);
        CHECK_U64(f.pixels, rows[i].pixels);
        CHECK_U64(f.dtype.size, rows[i].size);
        CHECK_U64(f.bits, rows[i].bits);
        CHECK(strcmp(f.bayer, rows[i].bayer) == 0);
    }
    static const char *const unknown[] = {
        "",     "Mono",     "Mono8s",   "Mono1p", "Mono8p",   "Mono14p", "Mono16Packed",
        "RGB8", "YUV422_8", "BayerXY8", "Bayer8", "Mono12px", "mono8"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        tg_camera_format f = {.pixels = TG_PIXEL_PLAIN};
        tg_error err = {0};
        test_row = unknown[i];
        CHECK_STATUS(tg_camera_format_parse(unknown[i], &f, &err), TG_UNSUPPORTED);
        CHECK(strstr(err.msg, unknown[i]) != NULL);
    }
    test_row = "";
}

/* --- The fake camera ------------------------------------------------------- */

static void frames_ids_and_times(void)
{
    static const char *const features[] = {"AcquisitionFrameRate=100", "Width=256",
                                           "Height=128"};
    pid_t pid = start_camera("0");
    tg_source *s = NULL;
    tg_error err = {0};
    CHECK_STATUS(open_camera(features, 3, &s, &err), TG_OK);
    if (s == NULL)
        fprintf(stderr, "%s\n", err.msg);
    tg_source_info info = {.size = sizeof info};
    int64_t last_time = INT64_MIN, utc = tg_clock_utc_ns();
    tg_sequence q;
    if (s != NULL) {
        tg_source_get_info(s, &info);
        CHECK_U64(info.width, 256);
        CHECK_U64(info.height, 128);
        CHECK_U64(info.dtype.size, 1);
        CHECK_U64(info.ids, TG_ID_GIGE_16);
        CHECK(info.fps > 99 && info.fps < 101);
        CHECK(!info.can_wait && !info.fills && info.buffer_bytes >= 4 * 256 * 128);
        CHECK(strcmp(info.pixel_format, "Mono8") == 0);
        CHECK(strstr(info.model, "Aravis") != NULL);
    }
    tg_sequence_init(&q, TG_ID_GIGE_16, 0, false);
    for (int i = 0; i < 30 && s != NULL; i++) {
        tg_source_frame f = {.size = sizeof f};
        tg_sequence_step step = {.event = TG_SEQUENCE_OK};
        CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_OK);
        CHECK(f.pixels != NULL && !f.meta.partial && f.bytes == 256 * 128);
        CHECK_STATUS(tg_sequence_next(&q, f.meta.id, &step, NULL), TG_OK);
        CHECK(step.event == TG_SEQUENCE_OK);
        CHECK(f.meta.time_device_ns > last_time);
        CHECK(llabs(f.meta.time_host_ns - utc) < 60 * 1000000000LL);
        last_time = f.meta.time_device_ns;
    }
    if (s != NULL) {
        tg_source_frame f = {.size = sizeof f};
        tg_source_stop(s);
        CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_CLOSED);
    }
    tg_source_close(s);
    end_camera(pid);
}

static void features_are_checked_and_named(void)
{
    static const struct {
        const char *feature, *says;
        tg_status want;
    } rows[] = {
        {"Width=128", "", TG_OK},
        {"ExposureTimeAbs=5000.5", "", TG_OK},
        {"PixelFormat=Mono16", "", TG_OK},
        {"AcquisitionMode=Continuous", "", TG_OK},
        {"NoSuchFeature=1", "NoSuchFeature", TG_INVALID},
        {"Width", "FEATURE=VALUE", TG_INVALID},
        {"=1", "FEATURE=VALUE", TG_INVALID},
        {"Width=wide", "Width", TG_INVALID},
        {"Width=100000000", "Width", TG_INVALID},
        {"Width=-1", "Width", TG_INVALID},
        {"PixelFormat=Mono9", "PixelFormat", TG_INVALID},
        {"ExposureTimeAbs=1e300", "ExposureTimeAbs", TG_INVALID},
        {"SensorWidth=3", "SensorWidth", TG_INVALID},
    };
    pid_t pid = start_camera("0");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_source *s = NULL;
        tg_error err = {0};
        test_row = rows[i].feature;
        CHECK_STATUS(open_camera(&rows[i].feature, 1, &s, &err), rows[i].want);
        CHECK(rows[i].want == TG_OK || strstr(err.msg, rows[i].says) != NULL);
        if (strcmp(rows[i].feature, "PixelFormat=Mono16") == 0 && s != NULL) {
            tg_source_info info = {.size = sizeof info};
            tg_source_get_info(s, &info);
            CHECK_U64(info.dtype.size, 2);
        }
        tg_source_close(s);
    }
    test_row = "";
    end_camera(pid);
}

static void formats_without_a_form_are_refused(void)
{
    static const char *const features[] = {"PixelFormat=RGB8Packed"};
    pid_t pid = start_camera("0");
    tg_source *s = NULL;
    tg_error err = {0};
    tg_status st = open_camera(features, 1, &s, &err);
    CHECK(st == TG_UNSUPPORTED || st == TG_INVALID); /* by us, or the camera has none */
    CHECK(strstr(err.msg, "RGB8") != NULL);
    tg_source_close(s);
    end_camera(pid);
}

static void lost_packets_make_partial_frames(void)
{
    static const char *const features[] = {"AcquisitionFrameRate=50"};
    pid_t pid = start_camera("20");
    tg_source *s = NULL;
    CHECK_STATUS(open_camera(features, 1, &s, NULL), TG_OK);
    uint64_t partial = 0, odd = 0;
    for (int i = 0; i < 60 && s != NULL; i++) {
        tg_source_frame f = {.size = sizeof f};
        tg_status st = tg_source_next(s, NULL, 0, &f, NULL, NULL);
        CHECK_STATUS(st, TG_OK);
        if (st != TG_OK)
            break;
        partial += f.meta.partial;
        odd += f.pixels == NULL || f.bytes != 512 * 512;
    }
    CHECK(partial > 30); /* 2 % of 190 packets: nearly all */
    CHECK_U64(odd, 0);
    tg_source_close(s);
    end_camera(pid);
}

/* A GenICam description of just what we ask for, whose vendor register ends inside the name. */
static const char short_vendor[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<RegisterDescription ModelName=\"Short\" VendorName=\"Test\" StandardNameSpace=\"None\" "
    "SchemaMajorVersion=\"1\" SchemaMinorVersion=\"0\" SchemaSubMinorVersion=\"1\" "
    "MajorVersion=\"1\" MinorVersion=\"0\" SubMinorVersion=\"0\" ToolTip=\"\" "
    "ProductGuid=\"0\" VersionGuid=\"0\" "
    "xmlns=\"http://www.genicam.org/GenApi/Version_1_0\">\n"
    "<Category Name=\"Root\"><pFeature>Width</pFeature></Category>\n"
    "<StringReg Name=\"DeviceVendorName\"><Address>0x48</Address><Length>4</Length>"
    "<AccessMode>RO</AccessMode><pPort>Device</pPort></StringReg>\n"
    "<StringReg Name=\"DeviceModelName\"><Address>0x68</Address><Length>4</Length>"
    "<AccessMode>RO</AccessMode><pPort>Device</pPort></StringReg>\n"
    "<IntReg Name=\"Width\"><Address>0x100</Address><Length>4</Length>"
    "<AccessMode>RW</AccessMode><pPort>Device</pPort><Sign>Unsigned</Sign>"
    "<Endianess>BigEndian</Endianess></IntReg>\n"
    "<IntReg Name=\"Height\"><Address>0x104</Address><Length>4</Length>"
    "<AccessMode>RW</AccessMode><pPort>Device</pPort><Sign>Unsigned</Sign>"
    "<Endianess>BigEndian</Endianess></IntReg>\n"
    "<IntReg Name=\"PixelFormatRegister\"><Address>0x128</Address><Length>4</Length>"
    "<AccessMode>RW</AccessMode><pPort>Device</pPort><Sign>Unsigned</Sign>"
    "<Endianess>BigEndian</Endianess></IntReg>\n"
    "<Enumeration Name=\"PixelFormat\"><EnumEntry Name=\"Mono8\"><Value>0x01080001</Value>"
    "</EnumEntry><pValue>PixelFormatRegister</pValue></Enumeration>\n"
    "<IntSwissKnife Name=\"PayloadSize\"><pVariable Name=\"W\">Width</pVariable>"
    "<pVariable Name=\"H\">Height</pVariable><Formula>W * H</Formula></IntSwissKnife>\n"
    "<Port Name=\"Device\"></Port>\n</RegisterDescription>\n";

static void names_need_not_end_with_nul(void)
{
    char file[] = "/tmp/tg-genicam-XXXXXX";
    int fd = mkstemp(file);
    tg_source *s = NULL;
    tg_error err = {0};
    tg_source_info info = {.size = sizeof info};

    CHECK(fd >= 0 && write(fd, short_vendor, sizeof short_vendor - 1) > 0 && close(fd) == 0);
    pid_t pid = start_camera_as("0", file);
    CHECK_STATUS(open_camera(NULL, 0, &s, &err), TG_OK);
    if (s != NULL) {
        tg_source_get_info(s, &info);
        CHECK(strcmp(info.model, "Arav Fake") == 0);
    } else {
        fprintf(stderr, "%s\n", err.msg);
    }
    tg_source_close(s);
    end_camera(pid);
    CHECK(unlink(file) == 0);
}

static void no_such_camera(void)
{
    tg_source *s = NULL;
    tg_error err = {0};
    tg_source_options o = {.size = sizeof o, .spec = "aravis:Nobody-0"};
    CHECK_STATUS(tg_source_open(&o, &s, &err), TG_NOT_FOUND);
    CHECK(strstr(err.msg, "Nobody-0") != NULL);
}

static const struct test tests[] = {
    {"pixel formats", pixel_formats},
    {"frames, ids and times", frames_ids_and_times},
    {"features are checked and named", features_are_checked_and_named},
    {"formats without a form are refused", formats_without_a_form_are_refused},
    {"lost packets make partial frames", lost_packets_make_partial_frames},
    {"names need not end with NUL", names_need_not_end_with_nul},
    {"no such camera", no_such_camera},
};

TEST_MAIN(tests)
