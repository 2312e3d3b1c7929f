"""Builds candidates in child processes, several at once, each within a time limit."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence

from kvbuffer_codegen.autotune.jobs import Job
from kvbuffer_codegen.autotune.lanes import Lanes
from kvbuffer_codegen.autotune.worker import HOOKS, Worker

BUILD_LIMIT_S = 120.0


class Farm:
    """``workers`` children (default: one per core) that outlive single searches. Use as a context manager."""

    def __init__(
        self,
        workers: int | None = None,
        hooks: str = HOOKS,
        limit_s: float = BUILD_LIMIT_S,
        environment: dict[str, str] | None = None,
    ):
        count = workers or len(os.sched_getaffinity(0))
        # A child of several has one core: what compilers it starts count as its own.
        environment = {"OMP_NUM_THREADS": "1", **(environment or {})}
        self.workers = [Worker("build", hooks, environment) for _ in range(count)]
        self.limit_s = limit_s

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()

    def start(self) -> None:
        """Let the children begin to import; in the caller's thread, since a child dies with the thread that started
        it.
        """
        for worker in self.workers:
            worker.ensure()

    def run(self, jobs: Sequence[Job], deadline: float, done: Callable[[Job, Job], None]) -> int:
        """Do the jobs in order until ``deadline`` (of ``time.monotonic``; the first job is done in any case); returns
        how many.

        ``done(job, answer)`` is called from this thread. Raises :class:`~kvbuffer_codegen.autotune.worker.WorkerError`.
        """
        lanes = Lanes(
            [functools.partial(worker.run, limit_s=self.limit_s) for worker in self.workers],
            self.workers,
            lambda job: job is jobs[0] or time.monotonic() <= deadline,
        )
        self.start()
        count = 0
        with contextlib.closing(lanes.run(jobs)) as answers:
            for job, answer in answers:
                count += 1
                done(job, answer)
        return count
