"""``coverage``: which keys of a model's kernels are tuned for a device, which are served by others' choices, and which
by nothing."""

from __future__ import annotations

import argparse
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kvbuffer_codegen.cli.common import (
    DONE,
    add_kernel_arguments,
    numbers,
    print_json,
    print_table,
    shape_of,
    specs_of,
    target_of,
)
from kvbuffer_codegen.ir.forms import BUILT, USUAL, KernelSpec

if TYPE_CHECKING:
    from kvbuffer_codegen.artifact import Device
    from kvbuffer_codegen.schedules.targets import Target

HELP = "which kernels are tuned for a device, inherited from another bucket or device, or missing"
COLUMNS = ("form", "buffer", "window", "rows", "status", "kernel", "why")
TUNED, INHERITED, UNTUNED, MISSING = STATUSES = ("tuned", "inherited", "untuned", "missing")
ANY_DRIVER = 10**9  #: of a machine that is not here


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser, BUILT, USUAL, several=True)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--batch", type=numbers, help="batch sizes, as 1,4,16, of every --tp")
    sizes.add_argument("--rows", type=numbers, help="value-head rows B x HV, as 16,4096 (default: every bucket)")
    parser.add_argument("--device", help="as manifests name it (default: the one here, or any of the architecture)")


def run(args: argparse.Namespace) -> int:
    shape = shape_of(args, args.recurrence)
    specs = specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    target = target_of(args.target)
    rows = sorted({batch * HV for batch in args.batch for _, HV in shape.shards}) if args.batch else args.rows
    machines = machines_of(target, args.device)
    found = [line for spec in specs for line in lines(spec, machines, buckets(rows))]
    counts = Counter(line["status"] for line in found)
    devices = [machine.name for machine in machines]
    if args.json:
        print_json({"target": target.name, "devices": devices, **{s: counts[s] for s in STATUSES}, "keys": found})
    else:
        print_table([{**line, "rows": span(line["rows"])} for line in found], COLUMNS)
        print(f"{target.name}, {' or '.join(devices)}: " + ", ".join(f"{counts[s]} {s}" for s in STATUSES))
    return DONE


def buckets(rows: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """The buckets that ``rows`` fall into; all for None."""
    from kvbuffer_codegen.autotune.install import BUCKETS, bucket

    return sorted({bucket(n) for n in (BUCKETS if rows is None else rows)}, key=lambda span: span[0])


def machines_of(target: Target, device: str | None) -> list[Device]:
    """The device that is meant or, where none is, those that anything was tuned for."""
    from kvbuffer_codegen.artifact import Device, cpu_device
    from kvbuffer_codegen.autotune.devices import device_for
    from kvbuffer_codegen.runtime.loader import describe

    here = device_for(target)
    if here is not None and device is None:
        return [describe(here)]
    if target.kind == "cpu":
        return [Device("cpu", platform.machine(), features=cpu_device().features, name=device or "")]
    capability = target.capabilities[0]
    names = [device] if device else sorted(tuned_devices(capability)) or ["any device"]
    return [Device("cuda", capability, ANY_DRIVER, name=name) for name in names]


def tuned_devices(capability: str) -> set[str]:
    """Names of devices that choices on the search path were made for."""
    from kvbuffer_codegen.artifact import ArtifactError
    from kvbuffer_codegen.caches import search_path
    from kvbuffer_codegen.index import read_index

    names: set[str] = set()
    for folder in search_path():
        try:
            choices = read_index(folder).choices
        except ArtifactError:
            continue  # said of every key that it might have served
        names |= {c.device for c in choices if c.capability == capability and c.device and not c.stale}
    return names


def lines(
    spec: KernelSpec, machines: Sequence[Device], spans: Sequence[tuple[int, int | None]]
) -> Iterator[dict[str, Any]]:
    """One line for each bucket: the best of the machines'."""
    for lo, hi in spans:
        answers = [status_of(spec, machine, max(lo, 1)) for machine in machines]
        about = {name: getattr(spec, name) for name in ("name", "form", "io", "state", "buffer", "window", "kv_only")}
        yield {**about, "rows": [lo, hi], **min(answers, key=lambda a: STATUSES.index(a["status"]))}


def status_of(spec: KernelSpec, machine: Device, rows: int) -> dict[str, Any]:
    """Inherited: tuned, but for another bucket of rows or another device of the architecture."""
    from kvbuffer_codegen.runtime import dispatcher

    reasons: list[str] = []
    found = dispatcher.chosen(spec, machine, rows, reasons)
    if found is None:
        return {"status": MISSING, "kernel": None, "where": None, "why": "; ".join(reasons)}
    status = TUNED if found.level == dispatcher.TUNED and not found.distance else INHERITED
    status = UNTUNED if found.level == dispatcher.UNTUNED else status
    why = found.why.rpartition(", in ")[0]
    return {"status": status, "kernel": found.folder.name, "where": str(found.folder), "why": why}


def span(rows: Sequence[int | None]) -> str:
    lo, hi = rows
    return f"{lo}-{hi}" if hi is not None else f"{lo}-"
