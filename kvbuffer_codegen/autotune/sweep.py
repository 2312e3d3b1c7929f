"""Builds many kernels with their default schedules and checks those that can run here; resumes where it stopped.

Every answer is a line of ``results.jsonl`` in the sweep's folder. An answer counts as long as the sources that made it
are the same (:func:`tree_digest`) and its artifact, where artifacts are kept, is still there.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvbuffer_codegen.autotune.jobs import OK, Job, spec_to_json
from kvbuffer_codegen.autotune.lanes import Lanes
from kvbuffer_codegen.autotune.sources import sources_hash
from kvbuffer_codegen.autotune.worker import HOOKS, Worker
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import Target

RESULTS = "results.jsonl"
BUILD_LIMIT_S, CHECK_LIMIT_S = 900.0, 300.0
SPILLS = "spills"  #: the status of a kernel that was built, for a GPU, and keeps registers in memory
REFUSED = "refused"  #: of one that the target has no schedule for
#: What decides a kernel and its check; a change of what these do makes old answers void.
SOURCES = ("ir", "schedules", "compiler", "autotune.cases", "autotune.tree_cases", "checking")


@dataclass(frozen=True)
class Sweep:
    """``check``: also hold each kernel against the oracle. ``keep``: leave the artifacts, one folder each, in ``out``.

    ``lanes``: kernels at a time, each in child processes of its own with one thread.
    """

    target: Target
    out: Path
    check: bool = False
    keep: bool = True
    lanes: int = 1
    hooks: str = HOOKS

    def run(self, specs: Sequence[KernelSpec], report: Callable[[int, int, Job], None]) -> list[Job]:
        """One answer per spec, in order: {"name", "status", "reason", "errors", "resources", "seconds", ...}.

        ``report(done, total, answer)`` is called for each new one. Raises
        :class:`~kvbuffer_codegen.autotune.worker.WorkerError` for a fault of this package.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        tree = tree_digest()
        found = self._kept(tree)
        waiting = [spec for spec in dict.fromkeys(specs) if spec.name not in found]
        done = len(specs) - len(waiting)
        for answer in self._answers(waiting):
            with (self.out / RESULTS).open("a") as file:
                file.write(json.dumps({**answer, "tree": tree}) + "\n")
            found[answer["name"]] = answer
            done += 1
            report(done, len(specs), answer)
        return [found[spec.name] for spec in specs]

    def _kept(self, tree: str) -> dict[str, Job]:
        """What an earlier run answered of these very sources; a last line that was cut off does not count."""
        path = self.out / RESULTS
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        if text and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1])
        return {
            line["name"]: line
            for line in lines
            if line["tree"] == tree
            and line["target"] == self.target.name
            and line["checked"] == self.check
            and (not self.keep or line["status"] not in (OK, SPILLS) or (self.out / line["name"]).is_dir())
        }

    def _answers(self, specs: list[KernelSpec]) -> Iterator[Job]:
        """Answers as they come."""
        with contextlib.ExitStack() as children:
            lanes, workers = [], []
            for _ in range(min(self.lanes, len(specs))):
                builder, judge = (Worker(role, self.hooks, {"OMP_NUM_THREADS": "1"}) for role in ("build", "measure"))
                lanes.append(functools.partial(self._one, builder=builder, judge=judge))
                workers += [children.enter_context(worker) for worker in (builder, judge)]
            with contextlib.closing(Lanes(lanes, workers).run(specs)) as answers:
                for _, answer in answers:
                    yield answer

    def _one(self, spec: KernelSpec, builder: Worker, judge: Worker) -> Job:
        begin = time.monotonic()
        folder = self.out / spec.name
        job = {"spec": spec_to_json(spec), "folder": str(folder), "target": self.target.name, "device": "cpu"}
        made: Job = {"name": spec.name, "target": self.target.name, "checked": self.check}
        try:
            schedule = space.default(spec, self.target).to_dict()
        except ValueError as error:
            return {**made, "status": REFUSED, "reason": str(error), "errors": {}, "resources": {}, "seconds": 0.0}
        answer = builder.run({"job": "build", "schedule": schedule, **job}, BUILD_LIMIT_S)
        resources = answer.get("resources", {})
        if answer["status"] == OK and self.check:
            answer = judge.run({"job": "check", "source": "", **job}, CHECK_LIMIT_S)
        if answer["status"] == OK and resources.get("spill_bytes"):
            answer |= {"status": SPILLS, "reason": f"spills {resources['spill_bytes']} bytes of registers"}
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)
        made |= {"schedule": schedule}
        made |= {name: answer.get(name, default) for name, default in (("status", ""), ("reason", ""), ("errors", {}))}
        return {**made, "resources": resources, "seconds": round(time.monotonic() - begin, 1)}


def tree_digest() -> str:
    """The hash of :data:`SOURCES`."""
    return sources_hash(*SOURCES)
