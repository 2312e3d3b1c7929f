"""Jobs that several threads share."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

from kvbuffer_codegen.autotune.worker import Worker

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class Lanes(Generic[Job, Answer]):
    """One thread for each of ``lanes``, functions from a job to its answer; the next job goes to the first that is
    free. A lane ends with the jobs, or where ``goes_on(job)`` is false, which drops that job. ``workers`` are the child
    processes that the lanes wait for.
    """

    def __init__(
        self,
        lanes: Sequence[Callable[[Job], Answer]],
        workers: Sequence[Worker],
        goes_on: Callable[[Job], bool] = lambda job: True,
    ):
        self.workers, self.goes_on = workers, goes_on
        self.waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Job, Answer] | BaseException | None] = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._serve, args=(lane,), daemon=True) for lane in lanes]

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Answer], None, None]:
        """(job, answer) as they come. Raises what a lane raises. Closed early, the workers are killed."""
        for job in jobs:
            self.waiting.put(job)
        for thread in self.threads:
            thread.start()
        serving = len(self.threads)
        try:
            while serving:
                item = self.finished.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    serving -= 1
                else:
                    yield item
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self.waiting.get_nowait()
        for worker in self.workers:
            worker.stop()
        for thread in self.threads:  # a lane between two jobs would start its child again after the kill
            thread.join()
        for worker in self.workers:
            worker.kill()

    def _serve(self, lane: Callable[[Job], Answer]) -> None:
        try:
            while self.goes_on(job := self.waiting.get_nowait()):
                self.finished.put((job, lane(job)))
        except queue.Empty:
            pass
        except BaseException as error:
            self.finished.put(error)
        finally:
            self.finished.put(None)
