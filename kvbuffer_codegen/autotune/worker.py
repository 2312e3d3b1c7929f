"""Child processes that do one job at a time and may be killed: what a candidate does to one of them, it does to
itself alone.

Parent and child speak JSON Lines over the child's stdin and its original stdout. Run as ``python -m
kvbuffer_codegen.autotune.worker HOOKS`` the module is the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

from kvbuffer_codegen.autotune.jobs import CRASH, TIMEOUT, Job

HOOKS = "kvbuffer_codegen.autotune.jobs"
START_S = 120.0  #: importing a compiler on a busy machine


class WorkerError(RuntimeError):
    """A child failed in a way that is no candidate's fault."""


class Worker:
    """A child process for jobs of one ``role`` ("build" or "measure"), started again after it died or was killed.

    Use as a context manager.
    """

    def __init__(self, role: str, hooks: str = HOOKS, environment: dict[str, str] | None = None):
        self.role, self.hooks, self.environment = role, hooks, environment
        self.child: subprocess.Popen[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.restarts = -1
        self.ready = False
        self.stopped = False
        self.starting = threading.Lock()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def run(self, job: Job, limit_s: float) -> Job:
        """The child's answer; ``{"status": "timeout" | "crash", "reason": ...}`` where it gave none.

        Raises :class:`WorkerError` where a child does not start, or fails through a fault of this package.
        """
        self.ensure()
        self._wait_until_ready()
        assert self.child is not None
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(json.dumps(job).encode() + b"\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return self._died()
        line = self._line(limit_s)
        if line is None:
            self.kill()
            return {"status": TIMEOUT, "reason": f"{job['job']} took longer than {limit_s:g} s"}
        if not line:
            return self._died()
        answer: Job = json.loads(line)
        if "fault" in answer:
            raise WorkerError(answer["fault"])
        return answer

    def ensure(self) -> None:
        """Have a child that lives; it may still be importing. It dies with the thread that started it (see
        :func:`main`).
        """
        with self.starting:
            if self.stopped:
                raise WorkerError("stopped")
            if self.child is not None and self.child.poll() is None:
                return
            self.kill()
            self.restarts += 1
            self.stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by kill)
            self.child = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, self.hooks, self.role],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                env={**os.environ, **(self.environment or {})},
                start_new_session=True,  # a kill takes its compilers along
            )

    def _wait_until_ready(self) -> None:
        """What a child imports before its first job does not count as the job's time."""
        if not self.ready and self._line(START_S) != b"{}\n":
            said = self._said()
            self.kill()
            raise WorkerError(f"a child process of the tuner did not start: {said}")
        self.ready = True

    def stop(self) -> None:
        """End what another thread's :meth:`run` waits for; no child starts until :meth:`kill` was called."""
        with self.starting:
            self.stopped = True
            self._signal()

    def kill(self) -> None:
        if self.child is not None:
            self._signal()
            self.child.wait()
            for pipe in (self.child.stdin, self.child.stdout):
                if pipe is not None:
                    pipe.close()
            self.child = None
        self.ready = self.stopped = False
        if self.stderr is not None:
            self.stderr.close()
            self.stderr = None

    def _signal(self) -> None:
        child = self.child
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _line(self, limit_s: float) -> bytes | None:
        """A line of the child's, b"" where it died, None where time ran out."""
        assert self.child is not None
        assert self.child.stdout is not None
        descriptor, read, deadline = self.child.stdout.fileno(), b"", time.monotonic() + limit_s
        while not read.endswith(b"\n"):
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            more = os.read(descriptor, 65536)
            if not more:
                return b""
            read += more
        return read

    def _died(self) -> Job:
        assert self.child is not None
        code = self.child.wait()
        what = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self._said()
        return {"status": CRASH, "reason": f"the process ended: {what}{'; ' + said if said else ''}"}

    def _said(self) -> str:
        """The last line that the child wrote to stderr."""
        if self.stderr is None:
            return ""
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else ""


def main(hooks: str, role: str) -> None:
    """The child: answers jobs until its parent closes the pipe."""
    # PR_SET_PDEATHSIG: a candidate that hangs must not outlive the tuner. The parent, to Linux, is the thread.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers and kernels print is not an answer
    from kvbuffer_codegen.autotune import jobs

    module: Any = importlib.import_module(hooks)
    module.preload(role)
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        try:
            answer = jobs.run(json.loads(line), module)
        except Exception as error:
            answer = {"fault": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
