/* cli/verb_bench.c - bench: scenarios against the limit of this machine, in one run. */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define AT(member) offsetof(bench_options, member)

static const cli_option options_table[] = {
    {"dir", CLI_TEXT, AT(dir), "DIR", "folder on the disk to measure; scratch is removed (.)"},
    {"rounds", CLI_COUNT, AT(rounds), "N",
     "interleaved rounds, the median counts (3; sweep: 1)"},
    {"scenario", CLI_LIST, AT(scenario), "NAME",
     "record: frames8m, frames772, null, paced, crops, crops-paced, slow-codec, or a letter "
     "a-e; apply: seed, rois32, rois64, rois, threshold-raw, threshold-zstd; repeatable (all)"},
    {"sink", CLI_CHOICE, AT(sink), "disk|tmpfs|null", "record: where the frames go (disk)"},
    {"quick", CLI_FLAG, AT(quick), NULL, "a twentieth of the work: does it run?"},
    {"alone", CLI_FLAG, AT(alone), NULL,
     "record, apply: nothing beside it, as bench/peers runs it"},
    {"bytes", CLI_SIZE, AT(bytes), "SIZE", "limits: written per measurement; sweep: per trial"},
    {"sweep", CLI_FLAG, AT(sweep), NULL,
     "record: try chunk sizes, codecs, shard sizes and threads with one kind of frame"},
    {"shape", CLI_SHAPE, AT(shape), "H,W", "sweep: of the frame (772,1032)"},
    {"dtype", CLI_DTYPE, AT(dtype), "DTYPE", "sweep: of the frame (uint8)"},
    {"from", CLI_TEXT, AT(from), "FILE", "sweep: raw frames of yours (made up)"},
    {"frames", CLI_COUNT, AT(frames), "N",
     "record: frames of each run; sweep: of each trial (512MiB of them)"},
    {"chunk-frames", CLI_EXTENTS, AT(chunk_frames), "1,2,...",
     "sweep: frames per chunk (1...128)"},
    {"codec", CLI_LIST, AT(codec), "CODEC",
     "sweep: repeatable (none, blosc:lz4:5:shuffle, zstd:1)"},
    {"shard", CLI_LIST, AT(shard), "SIZE|none", "sweep: repeatable (32MiB, 128MiB, none)"},
    {"pool-threads", CLI_EXTENTS, AT(pool_threads), "1,2,...", "sweep: threads (as --threads)"},
    {"report", CLI_TEXT, AT(report), "FILE.html", "sweep: draw it"},
    {"generate", CLI_TEXT, AT(generate), "OUT",
     "annotate: make OUT.imzML, OUT.ibd, OUT.db.csv, OUT.truth.csv; --shape is its size "
     "(36,48)"},
    {"formats", CLI_TEXT, AT(formats), "DATA.imzML",
     "annotate: bytes, time and memory of ways to keep its ion images; --db FILE"},
    {"parts", CLI_TEXT, AT(parts), "DATA.imzML",
     "annotate: its parts alone: XML, first pass of the sort, centroids (--db FILE), metrics, "
     "chaos (--from FILE of float32 images, --shape)"},
    {"db", CLI_LIST, AT(db), "FILE", "formats, parts: molecule database"},
    {"seed", CLI_NATURAL, AT(made.seed), "N", "generate: of all that is drawn (1)"},
    {"planes", CLI_COUNT, AT(made.depth), "N", "generate: in z (1)"},
    {"planted", CLI_NATURAL, AT(made.planted), "N", "generate: ions of the database (137)"},
    {"families", CLI_NATURAL, AT(made.families), "N",
     "generate: false isotope families, for decoys to meet (2600)"},
    {"noise", CLI_NATURAL, AT(made.noise), "N", "generate: peaks in each spectrum (60)"},
    {"fill", CLI_COUNT, AT(made.fill), "N", "generate: noise up to N peaks in each spectrum"},
    {"continuous", CLI_FLAG, AT(made.continuous), NULL, "generate: one m/z axis"},
    {"zlib", CLI_FLAG, AT(made.deflated), NULL, "generate: compressed arrays"},
    {"zero-based", CLI_FLAG, AT(made.zero_based), NULL, "generate: positions from 0"},
    {"shuffled", CLI_FLAG, AT(made.shuffled), NULL, "generate: spectra in no order"},
    {"mz-type", CLI_CHOICE, AT(made.mz), "f64|f32|i32|i64", "generate: m/z arrays (f64)"},
    {"intensity-type", CLI_CHOICE, AT(made.intensity), "f64|f32|i32|i64",
     "generate: intensity arrays (f32)"},
    {"broken", CLI_CHOICE, AT(made.broken), "not|uuid|checksum|cut",
     "generate: with a fault (not)"},
};

static void defaults(void *options)
{
    bench_options *o = options;
    o->dir = ".";
    o->made = (bench_generate){
        .seed = 1, .planted = 137, .families = 2600, .noise = 60, .intensity = 1};
}

static int run(cli *c, void *options)
{
    bench_options *o = options;
    const char *what = c->operands.item[0];
    struct stat st;
    if (o->rounds == 0)
        o->rounds = o->sweep ? 1 : 3;
    if (o->rounds > 99) {
        (void)cli_fail(&c->err, TG_INVALID, "--rounds: at most 99");
        return CLI_USAGE;
    }
    if (stat(o->dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        (void)cli_fail(&c->err, TG_INVALID, "--dir: '%.200s' is no folder", o->dir);
        return CLI_USAGE;
    }
    if (strcmp(what, "annotate") == 0)
        return bench_annotate(c, o);
    if (strcmp(what, "apply") == 0)
        return bench_apply(c, o);
    if (strcmp(what, "limits") == 0)
        return bench_limits(c, o);
    if (strcmp(what, "record") == 0)
        return o->sweep ? bench_sweep(c, o) : bench_record(c, o);
    (void)cli_fail(&c->err, TG_INVALID,
                   "got '%.60s', want bench limits, record, apply or annotate", what);
    return CLI_USAGE;
}

const cli_verb cli_bench = {
    .name = "bench",
    .operands = "limits|record|apply|annotate",
    .least = 1,
    .most = 1,
    .summary = "measure this machine's limits, and how near the jobs come to them",
    .example = "  tidegate bench limits --dir /data\n"
               "  tidegate bench record --scenario frames8m --dir /data --json\n"
               "  tidegate bench record --sweep --shape 2048,2048 --dtype uint16 --dir /data "
               "--report sweep.html\n"
               "  tidegate bench apply --scenario rois64 --dir /data --json\n"
               "  tidegate bench annotate --generate /data/made --shape 300,400 --fill 500\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .defaults = defaults,
    .run = run,
};
