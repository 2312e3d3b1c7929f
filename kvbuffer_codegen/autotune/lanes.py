"""Jobs that several threads share."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class Lanes(Generic[Job, Answer]):
    """One thread for each of ``lanes``, functions from a job to its answer; the next job goes to the first that is
    free. A lane ends with the jobs, or where ``goes_on(job)`` is false, which drops that job.
    """

    def __init__(self, lanes: Sequence[Callable[[Job], Answer]], goes_on: Callable[[Job], bool] = lambda job: True):
        self.lanes, self.goes_on = lanes, goes_on
        self.waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Job, Answer] | BaseException | None] = queue.SimpleQueue()

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Answer], None, None]:
        """(job, answer) as they come. Raises what a lane raises. Closed early, no lane takes another job."""
        for job in jobs:
            self.waiting.put(job)
        for lane in self.lanes:
            threading.Thread(target=self._serve, args=(lane,), daemon=True).start()
        serving = len(self.lanes)
        try:
            while serving:
                item = self.finished.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    serving -= 1
                else:
                    yield item
        finally:
            while not self.waiting.empty():
                self.waiting.get_nowait()

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
