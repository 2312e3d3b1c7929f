"""Candidates that misbehave on order: what a tuner's child process loads in place of the real builder and loader.

``FAKE_TEMPLATE``: an artifact whose files every candidate gets. ``FAKE_PLAN``: JSON, canonical schedule text -> what
is wrong with it, or the seconds that a call of it takes.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import read_artifact, read_manifest, write_artifact
from kvbuffer_codegen.autotune import jobs

PLAN: dict[str, Any] = json.loads(os.environ["FAKE_PLAN"])
USUAL = 0.004


def preload(role: str) -> None:
    if role == "measure":
        jobs.preload(role)
        from kvbuffer_codegen.autotune import workload

        workload.MAX_GROUPS, workload.READ_BYTES["cpu"] = 2, 2**20


def build(job: dict[str, Any]) -> dict[str, Any]:
    what = PLAN.get(json.dumps(job["schedule"], sort_keys=True))
    if what == "no compile":
        raise RuntimeError("error in /home/somebody/kernel.cpp: expected ';'")
    if what == "hang while building":
        tempfile.mkdtemp(prefix="kvb-fake-")
        time.sleep(1000)
    template = read_artifact(Path(os.environ["FAKE_TEMPLATE"]))
    made = {**template.manifest, "schedule": job["schedule"]}
    made |= {"buffer": job["spec"]["buffer"]} if "spec" in job else {}
    write_artifact(Path(job["folder"]), made, template.files)
    return {"status": "ok", "resources": {"spill_bytes": 8 * (what == "spill")}, "versions": {"fake": "1"}}


def load(folder: str, device: str) -> Any:
    from kvbuffer_codegen.checking import spec_of
    from kvbuffer_codegen.runtime.reference import ReferenceKernel

    manifest = read_manifest(Path(folder))
    return Fake(
        ReferenceKernel(spec_of(manifest), device), PLAN.get(json.dumps(manifest["schedule"], sort_keys=True), USUAL)
    )


class Fake:
    """The first call computes, later ones only take their time."""

    def __init__(self, kernel: Callable[..., None], what: Any):
        self.kernel, self.what, self.calls = kernel, what, 0

    def __call__(self, *arguments: Any) -> None:
        self.calls += 1
        if self.calls > 1:
            if self.what == "hang while timed":
                time.sleep(1000)
            time.sleep(self.what if isinstance(self.what, float) else USUAL)
            return
        if self.what == "hang":
            time.sleep(1000)
        if self.what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        self.kernel(*arguments)
        if self.what == "wrong":
            arguments[-1].mul_(1.001)
