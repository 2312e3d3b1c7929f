"""Builds candidates in child processes, several at once, each within a time limit."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from kvbuffer_codegen.autotune.jobs import Job
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
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        finished: queue.SimpleQueue[tuple[Job, Job] | BaseException | None] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        self.start()
        for worker in self.workers:
            serve = (worker, waiting, finished, jobs, deadline)
            threading.Thread(target=self._serve, args=serve, daemon=True).start()
        try:
            return self._collect(finished, done)
        except BaseException:
            while not waiting.empty():
                waiting.get_nowait()
            for worker in self.workers:
                worker.kill()
            raise

    def _collect(
        self, finished: queue.SimpleQueue[tuple[Job, Job] | BaseException | None], done: Callable[[Job, Job], None]
    ) -> int:
        count, serving = 0, len(self.workers)
        while serving:
            item = finished.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                serving -= 1
            else:
                count += 1
                done(*item)
        return count

    def _serve(
        self,
        worker: Worker,
        waiting: queue.SimpleQueue[Job],
        finished: queue.SimpleQueue[tuple[Job, Job] | BaseException | None],
        jobs: Sequence[Job],
        deadline: float,
    ) -> None:
        try:
            while True:
                job = waiting.get_nowait()
                if time.monotonic() > deadline and job is not jobs[0]:
                    break
                finished.put((job, worker.run(job, self.limit_s)))
        except queue.Empty:
            pass
        except BaseException as error:
            finished.put(error)
        finally:
            finished.put(None)
