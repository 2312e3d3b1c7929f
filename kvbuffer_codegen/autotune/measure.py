"""Checks and times candidates in one child process, which is started again after a candidate that hangs or crashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvbuffer_codegen.autotune.jobs import OK, Job
from kvbuffer_codegen.autotune.worker import HOOKS, Worker, WorkerError

CHECK_LIMIT_S, TIME_LIMIT_S = 120.0, 60.0


@dataclass(frozen=True)
class Machine:
    """What is measured on. ``model``: the device as manifests name it; ``name``: with a CPU's threads, for logs.
    ``units``: cores or multiprocessors. ``read``: bytes a second of a plain read, the roofline.
    """

    name: str
    model: str
    capability: str
    driver: str
    units: int
    read: float


class Bench:
    """Use as a context manager. Answers are JSON objects with a ``status``; ``limits``: seconds for a check and a
    timing.
    """

    def __init__(
        self,
        device: str,
        hooks: str = HOOKS,
        limits: tuple[float, float] = (CHECK_LIMIT_S, TIME_LIMIT_S),
        environment: dict[str, str] | None = None,
    ):
        self.device, self.limits = device, limits
        self.worker = Worker("measure", hooks, environment)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.kill()

    def machine(self) -> Machine:
        """Measures the roofline. Raises :class:`~kvbuffer_codegen.autotune.worker.WorkerError`."""
        answer = self.worker.run({"job": "roofline", "device": self.device}, self.limits[1])
        if answer["status"] != OK:
            raise WorkerError(f"the device cannot be measured: {answer['reason']}")
        return Machine(**{name: answer[name] for name in Machine.__dataclass_fields__})

    def check(self, spec: Job, folder: str, source: str) -> Job:
        """``{"status", "errors"}`` or why the candidate is out."""
        job = {"job": "check", "device": self.device, "spec": spec, "folder": folder, "source": source}
        return self.worker.run(job, self.limits[0])

    def time(
        self, spec: Job, folder: str, source: str, rows: int, H: int, phases: int, repeats: int, **more: bool
    ) -> Job:
        """``{"status", "us": one per pass, "bytes", "read"}`` or why the candidate is out. ``more``: ``renew``,
        ``read`` (:func:`~kvbuffer_codegen.autotune.jobs.measure`).
        """
        size: dict[str, Any] = {"rows": rows, "H": H, "phases": phases, "repeats": repeats}
        size |= {"renew": False, "read": False, **more}
        job = {"job": "measure", "device": self.device, "spec": spec, "folder": folder, "source": source, **size}
        return self.worker.run(job, self.limits[1])
