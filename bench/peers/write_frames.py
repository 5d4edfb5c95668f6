"""Write frames with one peer, as fast as it takes them, and print what that cost.

The clock runs from before the store is created until its files are closed and synced. Frames come from a pool of
noise that is made and touched before, so no peer may skip, compress or deduplicate them.
"""

import concurrent.futures
import importlib
import os
import time

import numpy as np

import common

POOL_BYTES = 64 * common.MIB


class Batches:
    """Collects frames until a chunk is full, in a fresh buffer each time because the last may still be in use."""

    def __init__(self, job, frames_per_batch):
        self.job, self.n = job, frames_per_batch
        self.buffer, self.start = None, 0

    def add(self, frame, i):
        """Returns (start, frames) when frame i completes a batch, else None."""
        if self.buffer is None:
            self.buffer, self.start = np.empty((self.n, *self.job.shape), self.job.dtype), i
        self.buffer[i - self.start] = frame
        return self.take() if i - self.start == self.n - 1 else None

    def take(self, end=None):
        if self.buffer is None:
            return None
        full = (self.start, self.buffer[: (end or self.start + self.n) - self.start])
        self.buffer = None
        return full


class AcquireZarr:
    """chunk: frames per chunk; shard: chunks of time per shard; tile: side of a chunk, 0 = whole frame (then all
    tiles go in one shard); spin: 1 leaves OpenMP's default of spinning threads."""

    modules = ["acquire_zarr"]
    distributions = ["acquire-zarr"]

    def __init__(self, job, chunk=1, shard=1, tile=0, threads=0, spin=1):
        import acquire_zarr as az

        h, w = job.shape
        th, tw = (tile, tile) if tile else (h, w)
        kinds = az.DimensionType
        self.stream_settings = az.StreamSettings(
            store_path=str(job.path / "a.zarr"),
            max_threads=threads,
            arrays=[
                az.ArraySettings(
                    data_type=job.dtype,
                    dimensions=[
                        az.Dimension(name="t", kind=kinds.TIME, array_size_px=0, chunk_size_px=chunk, shard_size_chunks=shard),
                        az.Dimension(name="y", kind=kinds.SPACE, array_size_px=h, chunk_size_px=th, shard_size_chunks=-(-h // th)),
                        az.Dimension(name="x", kind=kinds.SPACE, array_size_px=w, chunk_size_px=tw, shard_size_chunks=-(-w // tw)),
                    ],
                )
            ],
        )
        self.stream = az.ZarrStream(self.stream_settings)
        self.notes = {"own_estimate_bytes": self.stream_settings.get_maximum_memory_usage(), "own_meter_peak_bytes": 0}

    def append(self, frame, i):
        self.stream.append(frame)
        if i % 16 == 0:
            used = self.stream.get_current_memory_usage()
            self.notes["own_meter_peak_bytes"] = max(self.notes["own_meter_peak_bytes"], used)

    def close(self):
        self.stream.close()


class TensorStore:
    """mode=frame: each frame is one write; mode=batch: the caller gathers a chunk (or shard) and writes that;
    mode=txn: each frame is one write inside a transaction per chunk (or shard).

    chunk: frames per chunk; shard: chunks per shard, 0 = no sharding; window: writes in flight; io=direct: its
    O_DIRECT mode; reference=1: the peer may keep the caller's buffer. Without it append waits until the frame is
    copied, so that the caller may reuse its buffer as with the other peers."""

    modules = ["tensorstore"]
    distributions = ["tensorstore"]

    def __init__(self, job, mode="frame", chunk=1, shard=0, window=16, reference=0, io="default", sync=1):
        import tensorstore as ts

        codecs = [{"name": "bytes", "configuration": {"endian": "little"}} if job.dtype.itemsize > 1 else {"name": "bytes"}]
        unit = chunk * max(shard, 1)
        if shard:
            inner = {"chunk_shape": [chunk, *job.shape], "codecs": codecs}
            index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
            codecs = [{"name": "sharding_indexed", "configuration": {**inner, "index_codecs": index}}]
        self.ts, self.window, self.pending = ts, window, []
        self.reference = bool(reference)
        self.batches = Batches(job, unit) if mode == "batch" else None
        self.per_transaction = unit if mode == "txn" else 0
        self.job, self.transaction, self.notes = job, None, {}
        self.array = ts.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(job.path / "a.zarr")},
                "context": {"file_io_mode": {"mode": io}, "file_io_sync": bool(sync)},
                "metadata": {
                    "shape": [job.frames, *job.shape],
                    "data_type": job.dtype.name,
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [unit, *job.shape]}},
                    "codecs": codecs,
                },
            },
            create=True,
        ).result()

    def append(self, frame, i):
        if self.batches:
            full = self.batches.add(frame, i)
            if full:
                self._write(*full)
        elif self.per_transaction:
            self.transaction = self.transaction or self.ts.Transaction()
            self.array.with_transaction(self.transaction)[i].write(frame).result()
            if (i + 1) % self.per_transaction == 0:
                self._commit()
        else:
            future = self.array[i].write(frame, can_reference_source_data_indefinitely=self.reference)
            if not self.reference:
                future.copy.result()
            self._wait(future)

    def _write(self, start, frames):
        # The batch buffer is never reused, so the peer may always keep it.
        target = self.array[start : start + len(frames)]
        self._wait(target.write(frames, can_reference_source_data_indefinitely=True))

    def _commit(self):
        future, self.transaction = self.transaction.commit_async(), None
        self._wait(future)

    def _wait(self, future):
        self.pending.append(future)
        if len(self.pending) >= self.window:
            self.pending.pop(0).result()

    def close(self):
        rest = self.batches and self.batches.take(self.job.frames)
        if rest:
            self._write(*rest)
        if self.transaction:
            self._commit()
        for future in self.pending:
            future.result()


class ZarrPython:
    """array[i] = frame, or with batch=1 array[i:j] = frames for a whole chunk (or shard) at a time.

    chunk: frames per chunk; shard: chunks per shard, 0 = no sharding; pipeline=zarrs: the Rust codec pipeline."""

    modules = ["zarr"]
    distributions = ["zarr"]

    def __init__(self, job, chunk=1, shard=0, batch=0, pipeline="default"):
        import zarr

        if pipeline == "zarrs":
            import zarrs  # noqa: F401

            zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
            self.distributions = ["zarr", "zarrs"]
        unit = chunk * max(shard, 1)
        self.job, self.notes = job, {}
        self.batches = Batches(job, unit) if batch else None
        self.array = zarr.create_array(
            store=str(job.path / "a.zarr"),
            shape=(job.frames, *job.shape),
            chunks=(chunk, *job.shape),
            shards=(unit, *job.shape) if shard else None,
            dtype=job.dtype,
            compressors=None,
            fill_value=0,
        )

    def append(self, frame, i):
        if not self.batches:
            self.array[i] = frame
            return
        full = self.batches.add(frame, i)
        if full:
            self._write(*full)

    def _write(self, start, frames):
        self.array[start : start + len(frames)] = frames

    def close(self):
        rest = self.batches and self.batches.take(self.job.frames)
        if rest:
            self._write(*rest)


class ZipQueue:
    """A one-thread executor in front of a zip store, a (h, w, n) array in chunks of one frame, no compressor: the
    pattern of small camera programs. The camera hands over a new buffer per frame, hence the copy; nothing limits
    the queue."""

    modules = ["zarr"]
    distributions = ["zarr"]

    def __init__(self, job):
        import zarr

        shape, chunks = (*job.shape, job.frames), (*job.shape, 1)
        if zarr.__version__.startswith("2."):
            self.store = zarr.ZipStore(str(job.path / "a.zip"), mode="w")
            self.array = zarr.zeros(shape, chunks=chunks, dtype=job.dtype, compressor=None, store=self.store)
        else:
            self.store = zarr.storage.ZipStore(str(job.path / "a.zip"), mode="w")
            self.array = zarr.create_array(
                store=self.store, shape=shape, chunks=chunks, dtype=job.dtype, compressors=None, zarr_format=2
            )
        self.executor = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.futures, self.notes = [], {"queue_peak_frames": 0}

    def append(self, frame, i):
        self.futures.append(self.executor.submit(self._write, frame.copy(), i))
        self.notes["queue_peak_frames"] = max(self.notes["queue_peak_frames"], self.executor._work_queue.qsize())

    def _write(self, frame, i):
        self.array[:, :, i] = frame

    def close(self):
        self.executor.shutdown(wait=True)
        for future in self.futures:
            future.result()
        self.store.close()


class OmeWriters:
    """backend: acquire-zarr, tensorstore or zarr-python; chunk, shard as above, shard=0: no sharding; spin as above."""

    modules = ["ome_writers"]
    distributions = ["ome-writers"]

    def __init__(self, job, backend="tensorstore", chunk=1, shard=0, spin=1):
        import ome_writers as ow

        h, w = job.shape
        self.distributions = ["ome-writers", backend.replace("zarr-python", "zarr")]
        self.notes = {}
        self.stream = ow.create_stream(
            ow.AcquisitionSettings(
                root_path=str(job.path / "a.ome.zarr"),
                dimensions=[
                    ow.Dimension(name="t", count=job.frames, type="time", chunk_size=chunk, shard_size_chunks=shard or None),
                    ow.Dimension(name="y", count=h, type="space", chunk_size=h),
                    ow.Dimension(name="x", count=w, type="space", chunk_size=w),
                ],
                dtype=job.dtype.name,
                compression="none",
                format=ow.OmeZarrFormat(backend=backend),
            )
        )

    def append(self, frame, i):
        self.stream.append(frame)

    def close(self):
        self.stream.close()


WRITERS = {
    "acquire-zarr": AcquireZarr,
    "tensorstore": TensorStore,
    "zarr-python": ZarrPython,
    "zip-queue": ZipQueue,
    "ome-writers": OmeWriters,
}


class Job:
    def __init__(self, path, shape, dtype, frames):
        self.path, self.shape, self.dtype, self.frames = path, shape, dtype, frames


def noise_pool(job):
    """Distinct frames without a zero byte (some peers leave out what is all zero), 64 MiB of them at most; stamp()
    makes each frame of the run different from all others."""
    frame_bytes = int(np.prod(job.shape)) * job.dtype.itemsize
    count = max(1, min(job.frames, POOL_BYTES // frame_bytes))
    noise = np.random.default_rng(1).integers(1, 256, (count, frame_bytes), np.uint8)
    return list(noise.view(job.dtype).reshape(count, *job.shape))


def stamp(frame, i):
    """Write the sequence number into the first 8 bytes, as the camera of the floor and of tidegate does."""
    frame.reshape(-1).view(np.uint8)[:8] = np.frombuffer(np.uint64(i).tobytes(), np.uint8)
    return frame


def stream(peer, job, config):
    """Runs the peer; returns it with the seconds at the last append, at close and at the end of the sync, and with
    the milliseconds of each append."""
    pool = noise_pool(job)
    append_ms = np.empty(job.frames)
    common.sync_filesystem(job.path)
    rss_before = common.reset_peak_rss()

    start = time.perf_counter()
    writer = WRITERS[peer](job, **config)
    for i in range(job.frames):
        before = time.perf_counter()
        writer.append(stamp(pool[i % len(pool)], i), i)
        append_ms[i] = (time.perf_counter() - before) * 1e3
    appended = time.perf_counter() - start
    writer.close()
    closed = time.perf_counter() - start
    common.sync_filesystem(job.path)
    synced = time.perf_counter() - start
    return writer, rss_before, (appended, closed, synced), append_ms


def verify(job):
    """The first, middle and last frame as another reader sees them."""
    import zarr

    pool = noise_pool(job)
    if (job.path / "a.zip").exists():
        store = zarr.storage.ZipStore(str(job.path / "a.zip"), mode="r")
        array, axis = zarr.open_array(store=store, mode="r"), 2
    else:
        found = [p for p in (job.path / "a.zarr", job.path / "a.ome.zarr" / "0") if p.exists()]
        array, axis = zarr.open_array(store=str(found[0]), mode="r"), 0
    if array.shape[axis] != job.frames:
        raise SystemExit(f"stored shape {array.shape}, want {job.frames} frames")
    for i in (0, job.frames // 2, job.frames - 1):
        frame = array[:, :, i] if axis == 2 else array[i]
        if not np.array_equal(frame, stamp(pool[i % len(pool)], i)):
            raise SystemExit(f"frame {i} reads back different")


def main():
    p = common.parser(__doc__.splitlines()[0])
    p.add_argument("peer", choices=WRITERS)
    p.add_argument("--scenario", default="write")
    p.add_argument("--shape", default="2048x2048")
    p.add_argument("--dtype", default="uint16")
    p.add_argument("--frames", type=int, default=400)
    args = p.parse_args()

    config = common.settings(args.set)
    if config.get("spin") == 0:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    shape = tuple(int(n) for n in args.shape.split("x"))
    dtype = np.dtype(args.dtype)
    payload = args.frames * shape[0] * shape[1] * dtype.itemsize
    for module in WRITERS[args.peer].modules:
        importlib.import_module(module)

    with common.scratch(args.dir, payload) as path:
        job = Job(path, shape, dtype, args.frames)
        writer, rss_before, (appended, closed, synced), append_ms = stream(args.peer, job, config)
        rss_peak = common.peak_rss_bytes()
        stored, files = common.bytes_and_files(path)
        verify(job)

    p50, p99 = np.percentile(append_ms, [50, 99])
    common.emit(
        peer=args.peer,
        version=common.version_of(*writer.distributions),
        scenario=args.scenario,
        config=config,
        mib_per_s=round(payload / common.MIB / synced, 1),
        frames_per_s=round(args.frames / synced, 1),
        rss_bytes_peak=rss_peak,
        rss_bytes_before=rss_before,
        seconds={"append": round(appended, 3), "close": round(closed - appended, 3), "sync": round(synced - closed, 3)},
        append_ms={"p50": round(p50, 4), "p99": round(p99, 4), "max": round(append_ms.max(), 3)},
        frames=args.frames,
        shape=args.shape,
        dtype=args.dtype,
        stored_bytes=stored,
        files=files,
        filesystem=common.filesystem_of(args.dir),
        **writer.notes,
    )


if __name__ == "__main__":
    main()
