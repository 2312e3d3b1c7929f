"""Tuning on a Ray cluster (extra ``ray``): candidates are built wherever there is a core, and measured on every GPU, or
for CPU kernels on every node, at once.

Jobs, child processes and time limits are those of local tuning, on another machine; what was built travels as bytes.
Devices of one name share the list of searches; each other kind of device gets the whole list. Every node needs this
version of the package. The only file that imports ray.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvbuffer_codegen.autotune.candidates import Candidates
from kvbuffer_codegen.autotune.jobs import Job
from kvbuffer_codegen.autotune.measure import Bench, Machine
from kvbuffer_codegen.autotune.requests import Request
from kvbuffer_codegen.autotune.tune import Limits, Report, Run, scratch
from kvbuffer_codegen.autotune.worker import Worker, WorkerError
from kvbuffer_codegen.recurrences import one_line

Files = dict[str, bytes]


class MissingRayError(RuntimeError):
    """Ray is not installed, or its cluster does not answer."""


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingRayError(
            "executor ray: ray is not installed; `pip install 'kvbuffer-codegen[ray]'` here and on every node"
        ) from None
    return ray


def tune_on_ray(
    run: Run,
    tried: Callable[[Machine], Callable[[Request], Candidates]],
    address: str,
    hooks: str,
    limits: Limits,
) -> Report:
    """What :func:`~kvbuffer_codegen.autotune.tune.tune` does, on the cluster at ``address`` ("": one on this machine).

    Raises :class:`MissingRayError`.
    """
    with scratch() as work, Cluster(address, run.target.kind, hooks, limits) as cluster:
        by_name: dict[str, list[tuple[Machine, RayBench]]] = {}
        for bench in cluster.benches:
            machine = bench.machine()
            by_name.setdefault(machine.name, []).append((machine, bench))
        groups = [
            [
                run.tools(machine, RayFarm(cluster.ray, hooks, limits.build), bench, work / str(number), tried(machine))
                for machine, bench in group
            ]
            for number, group in enumerate(by_name.values())
        ]
        with ThreadPoolExecutor(len(groups)) as pool:
            futures = [pool.submit(run.searches, group) for group in groups]
            try:
                reports = [future.result() for future in futures]
            except BaseException:
                cluster.close()  # which ends what the other threads wait for
                raise
    first = reports[0]
    return replace(
        first,
        device=", ".join(r.device for r in reports),
        logs=sorted({name for r in reports for name in r.logs}),
        outcomes=[outcome for r in reports for outcome in r.outcomes],
        failures=[failure for r in reports for failure in r.failures],
        seconds=max(r.seconds for r in reports),
    )


class Cluster:
    """Use as a context manager. ``benches``: one for each GPU, or for CPU kernels one a node."""

    def __init__(self, address: str, kind: str, hooks: str, limits: Limits):
        self.ray = import_ray()
        local: dict[str, Any] = {} if address else {"include_dashboard": False}
        try:
            self.ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = address or "this machine"
            raise MissingRayError(f"executor ray: no cluster at {where}: {one_line(error)}; see `ray status`") from None
        try:
            options = self._places(kind)
            if not options:
                raise MissingRayError("executor ray: the cluster has no GPU; accepted: one with GPUs, or --target cpu")
            actor = self.ray.remote(Measurer)
            times = (limits.check, limits.time)
            self.benches = [RayBench(self.ray, actor.options(**o).remote(kind, hooks, times)) for o in options]
        except BaseException:
            self.close()
            raise

    def _places(self, kind: str) -> list[dict[str, Any]]:
        if kind == "cuda":
            return [{"num_gpus": 1, "num_cpus": 0}] * int(self.ray.cluster_resources().get("GPU", 0))
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"]]
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        return [{"num_cpus": 0, "scheduling_strategy": strategy} for strategy in strategies]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; the actors and their children end with the job."""
        self.ray.shutdown()


class RayFarm:
    """:class:`~kvbuffer_codegen.autotune.farm.Farm` over the cluster's cores."""

    def __init__(self, ray: Any, hooks: str, limit_s: float):
        self.ray, self.hooks, self.limit_s = ray, hooks, limit_s
        self.build = ray.remote(build).options(num_cpus=1)
        self.lanes = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(self, jobs: Sequence[Job], deadline: float, done: Callable[[Job, Job], None]) -> int:
        """As :meth:`~kvbuffer_codegen.autotune.farm.Farm.run`."""
        waiting, started, count = list(jobs), 0, 0
        running: dict[Any, Job] = {}
        try:
            while True:
                while waiting and len(running) < self.lanes and (not started or time.monotonic() <= deadline):
                    job = waiting.pop(0)
                    running[self.build.remote(job, self.hooks, self.limit_s)] = job
                    started += 1
                if not running:
                    return count
                (ready,), _ = self.ray.wait(list(running))
                job = running.pop(ready)
                answer, files = _get(self.ray, ready)
                _write(Path(job["folder"]), files)
                count += 1
                done(job, answer)
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)


class RayBench(Bench):
    """:class:`~kvbuffer_codegen.autotune.measure.Bench` of another machine."""

    def __init__(self, ray: Any, actor: Any):
        self.ray, self.actor = ray, actor
        self.worker = self  # type: ignore[assignment]
        self.sent: set[str] = set()

    def machine(self) -> Machine:
        return Machine(**_get(self.ray, self.actor.machine.remote()))

    def check(self, spec: Job, folder: str, source: str) -> Job:
        return self._ask("check", spec, folder, source)

    def time(
        self, spec: Job, folder: str, source: str, rows: int, H: int, phases: int, repeats: int, **more: bool
    ) -> Job:
        return self._ask("time", spec, folder, source, rows, H, phases, repeats, **more)

    def _ask(self, what: str, spec: Job, folder: str, *arguments: Any, **more: bool) -> Job:
        files = None if folder in self.sent else _read(Path(folder))
        self.sent.add(folder)
        return dict(_get(self.ray, self.actor.ask.remote(what, spec, Path(folder).name, files, arguments, more)))

    def stop(self) -> None:
        """End what another thread waits for."""
        self.ray.kill(self.actor)

    def kill(self) -> None:
        self.stop()


# --- on the nodes


@functools.cache
def _builder(hooks: str, thread: int) -> Worker:
    """One child for each process of Ray's that builds; it lives as long as the thread that started it."""
    return Worker("build", hooks, {"OMP_NUM_THREADS": "1"})


def build(job: Job, hooks: str, limit_s: float) -> tuple[Job, Files]:
    """The answer of a build job, and the files of the artifact."""
    with tempfile.TemporaryDirectory(prefix="kvb-ray-") as folder:
        kernel = Path(folder) / "kernel"
        answer = _builder(hooks, threading.get_ident()).run({**job, "folder": str(kernel)}, limit_s)
        return answer, _read(kernel)


class Measurer:
    """The actor: a bench, and a folder for what it is sent."""

    def __init__(self, device: str, hooks: str, limits: tuple[float, float]):
        self.kernels = tempfile.TemporaryDirectory(prefix="kvb-ray-")
        cores = str(len(os.sched_getaffinity(0)))  # all of them, where Ray gives an actor one thread
        self.bench = Bench(device, hooks, limits, {"TMPDIR": self.kernels.name, "OMP_NUM_THREADS": cores})

    def machine(self) -> dict[str, Any]:
        return asdict(self.bench.machine())

    def ask(
        self, what: str, spec: Job, name: str, files: Files | None, arguments: tuple[Any, ...], more: dict[str, bool]
    ) -> Job:
        folder = Path(self.kernels.name) / name
        if files is not None:
            _write(folder, files)
        answer: Job = getattr(self.bench, what)(spec, str(folder), *arguments, **more)
        return answer


def _read(folder: Path) -> Files:
    """The files of an artifact; none where it was not built."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def _write(folder: Path, files: Files) -> None:
    if files:
        folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _get(ray: Any, reference: Any) -> Any:
    """Raises :class:`~kvbuffer_codegen.autotune.worker.WorkerError` for what went wrong on a node."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        raise WorkerError(f"on a Ray node: {one_line(getattr(error, 'cause', None) or error)}") from None
