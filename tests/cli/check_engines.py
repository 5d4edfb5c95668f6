#!/usr/bin/env python3
"""Jobs in parts on the engines that people have, by the recipes in examples/: one part is killed in
its middle, holding its lock, and done again. The result is that of one process, byte for byte.

    check_engines.py TIDEGATE DATA slurm|mpi|parallel|dask annotate|apply

DATA: the folder tests/data/ims. Exit 77: skipped, the reason is printed.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TIDEGATE, DATA = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve() / "synthetic-own"
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LITHOPS = os.environ.get("TG_LITHOPS_PYTHON", str(ROOT / "build" / "venv" / "lithops" / "bin" / "python"))
DASK = os.environ.get("TG_DASK_PYTHON", str(ROOT / "build" / "venv" / "dask" / "bin" / "python"))
N, SECONDS = 3, 240

# The first start of part 1 dies. Without TG_POINT its command is stopped at once and left behind,
# with what it holds, and killed two seconds later; with it the command kills itself at that point,
# in its middle, and leaves its lock.
VICTIM = """#!/bin/sh
i=${SLURM_ARRAY_TASK_ID:-${OMPI_COMM_WORLD_RANK:-${PARALLEL_SEQ:-$TG_INDEX}}}
if [ "$i" = 1 ] && mkdir "$TG_ONCE" 2>/dev/null; then
    if [ -n "${TG_POINT:-}" ]; then
        TG_CRASH_AT=$TG_POINT "$@"
        kill -KILL $$
    fi
    "$@" &
    kill -STOP $!
    { sleep 2; kill -KILL $!; } &
    kill -KILL $$
fi
exec "$@"
"""


def run(*args, **env):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **env))
    assert done.returncode == 0, f"{args}: exit {done.returncode}\n{done.stdout}{done.stderr}{logs()}"
    return done.stdout


def logs():
    return "".join(f"\n--- {p}\n{p.read_text(errors='replace')[-2000:]}" for p in sorted(pathlib.Path().glob("*.log")))


def files(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def wait_for(what, seconds=120):
    """Until what() is true; generous, for machines that do much else."""
    end = time.monotonic() + seconds
    seen = ""
    while not what():
        seen = job_states() if what.__name__.endswith("done") else ""
        assert time.monotonic() < end, f"waited {seconds} s for {what.__name__} {seen}{logs()}"
        time.sleep(0.1)


class Annotate:
    env = {}

    @staticmethod
    def check_missing():
        """A part is: the last to end writes the tables."""
        assert not pathlib.Path("out/annotations.csv").exists()

    @staticmethod
    def command(out, part=()):
        return [TIDEGATE, "annotate", "own.imzML", out, "--db", DATA / "db.csv", "--fdr", "0.1", "--progress", "none", *part]

    def prepare(self):
        for ending in ("imzML", "ibd"):
            shutil.copy(DATA / f"synthetic.{ending}", f"own.{ending}")
        run(*self.command("whole"))

    def auto(self):
        return self.command("out", ["--resume", "--part", f"auto/{N}"])

    def any_part(self):
        return self.command("out", ["--resume"])

    def check(self):
        assert files("out") == files("whole")
        assert not pathlib.Path("out.tidegate").exists()


class Apply:
    """In place, so that a region done twice would show."""
    env = {"TG_POINT": "12"}

    @staticmethod
    def check_missing():
        assert json.loads(run(TIDEGATE, "status", "p", "--json"))["missing"] == [1]

    def prepare(self):
        run(TIDEGATE, "record", "im.zarr", *"--from test:128x128:u16 --frames 1 --tile 16,16 --chunk-frames 1 --shard none".split())
        ask = "--in-place --rois grid:40/32 --policy mean --op gaussian:sigma=1 --memory 32MiB".split()
        for name in ("whole.zarr", "out.zarr"):
            shutil.copytree("im.zarr/0", name)
        run(TIDEGATE, "apply", "whole.zarr", *ask)
        run(TIDEGATE, "plan", "out.zarr", "--out", "p", "--parts", N, *ask)

    def auto(self):
        return [*self.any_part(), "--part", "auto"]

    def any_part(self):
        return [TIDEGATE, "run", "p", "--memory", "32MiB", "--progress", "none"]

    def check(self):
        assert files("out.zarr/c") == files("whole.zarr/c") != files("im.zarr/0/c")
        assert not pathlib.Path("out.zarr.tidegate").exists()
        assert json.loads(run(TIDEGATE, "status", "p", "--json"))["finished"]


JOB = {"annotate": Annotate, "apply": Apply}[sys.argv[4]]()


def prepare():
    victim = pathlib.Path("victim.sh")
    victim.write_text(VICTIM)
    victim.chmod(0o755)
    JOB.prepare()
    return {"TG_ONCE": str(pathlib.Path("once").resolve()), **JOB.env}


def check_result():
    assert pathlib.Path("once").is_dir(), "no part was killed"
    JOB.check()


def in_parts(engine):
    return [EXAMPLES / f"parts_{engine}.sh", N, "./victim.sh", *JOB.auto()]


# --- One function an engine ------------------------------------------------------------------------

def check_mpi(env):
    run(*in_parts("mpi"), **env, MPIRUN="mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader"
        " --mca oob_tcp_if_include lo")


def check_parallel(env):
    """GNU parallel counts from 1: the part that dies is its number 1, index 0."""
    run(*in_parts("parallel"), **env)


def check_dask(env):
    if not os.path.exists(DASK):
        print("no environment dask")
        sys.exit(77)
    # The part stands in the command, so the index does, too.
    command = ["sh", "-c", 'i=$1; shift; TG_INDEX=${i%/*} exec ./victim.sh "$@" --part "$i"', "part", "{part}",
               *JOB.any_part()]
    run(DASK, EXAMPLES / "parts_dask.py", N, *command, **env)


# Part 1 is killed as by the others; part 2 comes to a deadline the first time.
LATE = """#!/bin/sh
i=$1
shift
export TG_INDEX="${i%/*}"
[ "$TG_INDEX" != 2 ] || [ "$TG_LATE" != yes ] || ! mkdir late 2>/dev/null || exec "$@" --part "$i" --deadline 1ms
exec ./victim.sh "$@" --part "$i"
"""


def check_lithops(env):
    """What is killed and what comes to its deadline goes out again, until all parts are done."""
    if not os.path.exists(LITHOPS):
        print("no environment lithops")
        sys.exit(77)
    pathlib.Path("late.sh").write_text(LATE)
    pathlib.Path("late.sh").chmod(0o755)
    here, annotates = pathlib.Path().resolve(), sys.argv[4] == "annotate"
    # Lithops' own files stay in this folder, and no cleaner of its outlives the test.
    pathlib.Path("lithops.yaml").write_text(f"""lithops:
    backend: localhost
    storage: localhost
    data_cleaner: false
    telemetry: false
    log_level: WARNING
localhost:
    runtime: {LITHOPS}
    worker_processes: {N}
""")
    (here / "tmp").mkdir()
    told = run(LITHOPS, EXAMPLES / "parts_lithops.py", N, "./late.sh", "{part}", *JOB.any_part(), **env,
               TG_LATE="yes" if annotates else "no",               LITHOPS_CONFIG_FILE=str(here / "lithops.yaml"), TMPDIR=str(here / "tmp"), HOME=str(here))
    assert pathlib.Path("late").is_dir() == annotates, "no part came to its deadline"
    rounds = told.splitlines()
    assert len(rounds) >= 2 and rounds[-1] == f"{N} of {N} parts done", told


def free_ports():
    """Two that are free now, and below those that the kernel hands out: the daemons take no port 0, so what it
    chose could be another's by the time they start."""
    ports = []
    while len(ports) < 2:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(20000, 32000)))
            ports.append(s.getsockname()[1])
    return ports


@contextlib.contextmanager
def slurm(folder):
    """munge, slurmctld and slurmd of our own, without systemd."""
    started = []
    host = socket.gethostname().split(".")[0]
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(128))
    (folder / "munge" / "key").chmod(0o600)
    ports = free_ports()
    (folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ReturnToService=2
JobRequeue=1
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={N} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
    (folder / "slurm.conf").chmod(0o644)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")

    def start(name, *args):
        with open(f"{name}.log", "wb") as log:
            started.append(subprocess.Popen([name, *map(str, args)], stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def socket_is_there():
        return (folder / "munge" / "socket").exists()

    def node_is_idle():
        told = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True).stdout
        return told.strip() == "idle"

    try:
        start("munged", "--foreground", "--force", f"--key-file={folder}/munge/key", f"--socket={folder}/munge/socket",
              f"--pid-file={folder}/munge/pid", f"--log-file={folder}/munge/log", f"--seed-file={folder}/munge/seed")
        wait_for(socket_is_there)
        start("slurmctld", "-D", "-c")
        start("slurmd", "-D")
        wait_for(node_is_idle)
        yield
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def job_states():
    """State of each task of the array, by its index."""
    told = subprocess.run(["squeue", "-h", "-r", "-t", "all", "-o", "%K %T %A %F"], capture_output=True, text=True).stdout
    return {int(line.split()[0]): line.split()[1:] for line in told.splitlines()}


def check_slurm(env):
    """Task 1 is killed, the others end; it is queued again and ends as well."""
    if os.geteuid() != 0:
        print("not root")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="tg-slurm-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        with slurm(pathlib.Path(folder)):
            job = subprocess.Popen([str(a) for a in in_parts("slurm")], env=dict(os.environ, **env), stdin=subprocess.DEVNULL)

            def killed_and_others_done():
                states = {i: s[0] for i, s in job_states().items()}
                return len(states) == N and states[1] not in ("PENDING", "RUNNING", "COMPLETING") and all(
                    s == "COMPLETED" for i, s in states.items() if i != 1)

            def all_done():
                states = job_states()
                return len(states) == N and all(s[0] == "COMPLETED" for s in states.values())

            try:
                wait_for(killed_and_others_done)
                JOB.check_missing()
                run("scontrol", "requeue", f"{job_states()[1][2]}_1")
                wait_for(all_done)
            finally:
                job.kill()
                job.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="tg-engines-") as folder:
        os.chdir(folder)
        env = prepare()
        globals()[f"check_{sys.argv[3]}"](env)
        check_result()
        os.chdir("/")


main()
