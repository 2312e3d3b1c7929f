"""``tune --dry-run``: what a run would build and time, and about how long."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvbuffer_codegen.cli.common import DONE, print_json, print_table

if TYPE_CHECKING:
    from kvbuffer_codegen.autotune.plan import SearchPlan
    from kvbuffer_codegen.autotune.requests import Request
    from kvbuffer_codegen.schedules.targets import Target

COLUMNS: tuple[str, ...] = (
    "recurrence",
    "form",
    "state",
    "records",
    "buffer",
    "window",
    "binaries",
    "pruned",
    "buckets",
    "timings",
)
COLUMNS += ("device s",)


def run(args: argparse.Namespace, requests: Sequence[Request], target: Target) -> int:
    from kvbuffer_codegen.autotune.devices import device_for, traits
    from kvbuffer_codegen.autotune.plan import plan

    device = device_for(target)
    made = plan(requests, target, traits(target, device))
    building = made.building_s(args.workers)
    rows = [_row(s) for s in made.searches]
    if args.json:
        found: dict[str, Any] = {"target": target.name, "device": "here" if device else "typical"}
        found |= {"searches": len(requests), "sizes": made.sizes, "binaries": made.binaries, "shared": made.shared}
        found |= {"timings": made.timings, "building_s": round(building), "device_s": round(made.device_s)}
        print_json(found | {"plan": rows})
        return DONE
    print_table([{**r, "buckets": ",".join(map(str, r["buckets"]))} for r in rows], COLUMNS)
    print(f"{len(requests)} searches for {target.name}, {made.sizes} sizes in all:")
    print(f"{made.binaries} distinct binaries, each for all buckets of value-head rows ({made.shared} builds less),")
    print(f"and {made.timings} timings;")
    where = "the device" if device else f"a device that is typical for {target.name}"
    print(f"about {building:.0f} s of building here and {made.device_s:.0f} s on {where}")
    return DONE


def _row(s: SearchPlan) -> dict[str, Any]:
    spec = s.request.spec
    about: dict[str, Any] = {"recurrence": spec.recurrence and spec.recurrence.name}
    about |= {name: getattr(spec, name) for name in ("form", "state", "records", "ratio", "buffer", "window")}
    about |= {"binaries": s.binaries, "pruned": s.pruned, "sizes": len(s.request.points), "buckets": list(s.buckets)}
    return about | {"timings": s.timings, "device s": round(s.device_s, 1)}
