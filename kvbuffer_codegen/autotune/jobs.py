"""What a child process of the tuner can do: build a candidate, check it, time it. Jobs and answers are JSON objects.

A job names its candidate by a folder, so that building and measuring need not share a machine. :func:`build` and
:func:`load` are what tests replace to make candidates that hang, crash or compute wrong numbers.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.normal_form import NormalForm

Job = dict[str, Any]
OK, SLOW, COMPILE, TIMEOUT, WRONG, CRASH = ("ok", "slow", "compile", "timeout", "wrong", "crash")


def spec_to_json(spec: KernelSpec) -> Job:
    """The inverse of :func:`spec_from_json`."""
    return key_to_json(spec.key(), spec.recurrence)


def key_to_json(key: Mapping[str, Any], normal_form: NormalForm | None) -> Job:
    """The same from a kernel's key, which names its recurrence only, and the recurrence."""
    values = {name: value for name, value in key.items() if not name.startswith("recurrence")}
    return {**values, "normal_form": normal_form and normal_form.to_dict()}


def spec_from_json(data: Mapping[str, Any]) -> KernelSpec:
    if FORMS[data["form"]].cursors_only:
        return cursor_spec(data["form"], data.get("rounding", "nearest"))
    values = {name: value for name, value in data.items() if name != "normal_form"}
    return KernelSpec(recurrence=NormalForm.from_dict(data["normal_form"]), **values)


def preload(role: str) -> None:
    """Import what jobs of a ``role`` ("build", "measure") need, before they are timed."""
    modules = {"build": ("compiler.build",), "measure": ("autotune.workload", "checking", "runtime.loader")}
    for name in modules[role]:
        importlib.import_module(f"kvbuffer_codegen.{name}")


def build(job: Job) -> Job:
    """Compile ``schedule`` of ``spec`` for ``target`` into ``folder``."""
    from kvbuffer_codegen.artifact import read_manifest
    from kvbuffer_codegen.compiler.build import build as compile_artifact
    from kvbuffer_codegen.schedules.space import schedule_from_dict
    from kvbuffer_codegen.schedules.targets import target

    folder = Path(job["folder"])
    compile_artifact(spec_from_json(job["spec"]), schedule_from_dict(job["schedule"]), target(job["target"]), folder)
    manifest = read_manifest(folder)
    return {"status": OK, "resources": manifest["resources"], "versions": manifest["compiler"]}


def load(folder: str, device: str) -> Callable[..., Any]:
    """The kernel in ``folder``."""
    from kvbuffer_codegen.runtime.loader import load_artifact

    return load_artifact(Path(folder), device)


def check(job: Job, load_kernel: Callable[[str, str], Callable[..., Any]]) -> Job:
    """Hold the kernel in ``folder`` against the oracle."""
    from kvbuffer_codegen.checking import check_kernel

    spec = spec_from_json(job["spec"])
    result = check_kernel(load_kernel(job["folder"], job["device"]), spec, job["device"], job["source"])
    if not result.ok:
        return {"status": WRONG, "reason": result.reason}
    return {"status": OK, "errors": result.errors}


def measure(job: Job, load_kernel: Callable[[str, str], Callable[..., Any]]) -> Job:
    """Microseconds a call of the kernel in ``folder``: ``repeats`` passes over ``phases`` phases of its workload.

    ``renew``: allocate the pool anew, since where its pages lie favours one candidate or another by several percent.
    ``read``: also bytes a second of a plain read of that pool.
    """
    import torch

    from kvbuffer_codegen.autotune.workload import read_bandwidth, timer

    device = torch.device(job["device"])
    if job["renew"]:
        _workload.cache_clear()
    workload = _workload(json.dumps(job["spec"]), job["source"], job["rows"], job["H"], device)
    clock = timer(load_kernel(job["folder"], job["device"]), workload, job["phases"], device)
    us = [clock.once() for _ in range(job["repeats"])]
    read = read_bandwidth(device, workload.pool) if job["read"] else None
    return {"status": OK, "us": us, "bytes": workload.bytes, "read": read}


def roofline(job: Job) -> Job:
    """Bytes a second of a plain read on the device, and what the device is called."""
    import torch

    from kvbuffer_codegen.autotune.workload import read_bandwidth, units
    from kvbuffer_codegen.runtime.loader import describe

    device = torch.device(job["device"])
    found = describe(device)
    return {
        "status": OK,
        "read": read_bandwidth(device),
        "name": found.name if device.type == "cuda" else f"{found.name} x{units(device)}",
        "model": found.name,
        "capability": found.capability,
        "driver": str(found.driver),
        "units": units(device),
    }


@functools.lru_cache(1)
def _workload(spec_json: str, source: str, rows: int, H: int, device: Any) -> Any:
    """One at a time: a workload is as large as the pool it walks."""
    from kvbuffer_codegen.autotune.workload import make_workload
    from kvbuffer_codegen.recurrences import of_normal_form

    spec = spec_from_json(json.loads(spec_json))
    recurrence = of_normal_form(spec.recurrence, source) if spec.recurrence else None
    return make_workload(spec, recurrence, rows, H, device)


def run(job: Job, hooks: Any) -> Job:
    """The answer to ``job``; ``hooks`` is the module whose ``build`` and ``load`` are used (this one, tests aside).

    What a compiler or a launcher refuses becomes a status; anything else is a fault of this package and raises.
    """
    from kvbuffer_codegen.artifact import ArtifactError

    kind = job["job"]
    if kind == "build":
        return _build(job, hooks)
    try:
        if kind == "check":
            return check(job, hooks.load)
        if kind == "measure":
            return measure(job, hooks.load)
        return roofline(job)
    except ArtifactError as error:
        return {"status": CRASH, "reason": str(error)}
    except (RuntimeError, ValueError) as error:  # launch failures and what torch reports of the device
        return {"status": CRASH, "reason": f"{type(error).__name__}: {error}"}


def _build(job: Job, hooks: Any) -> Job:
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler

    try:
        return dict(hooks.build(job))
    except MissingCompiler:
        raise
    except Exception as error:  # TVM and TileLang raise their own kinds; a candidate that does not compile is data
        return {"status": COMPILE, "reason": f"{type(error).__name__}: {error}"}
