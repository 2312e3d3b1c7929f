"""Which kernels a request means, and which of their schedules are worth building, best guess first."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvbuffer_codegen.ir.forms import BUILT, FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import Target

#: A candidate that keeps less than this share of the busiest candidate's cores or multiprocessors at work cannot win.
BUSY_SHARE = 0.6


@dataclass(frozen=True)
class Candidates:
    """``schedules``: the default first, then by what the cost model expects and nearness to the default. ``pruned``:
    those that the model rules out, with the reason. ``legal``: how many there are in all.
    """

    schedules: list[Schedule]
    pruned: list[tuple[Schedule, str]]
    legal: int


def specs_of(
    recurrence: Recurrence,
    forms: Sequence[str],
    *,
    heads: tuple[int, int],
    dims: tuple[int, int],
    io: str,
    state: str,
    buffers: Sequence[int],
    windows: Sequence[int],
    kv_only: int = 0,
    layout: str = "VK",
    records: str = "exact",
    rounding: str = "nearest",
) -> list[KernelSpec]:
    """One kernel per form, buffer length and (for verify) window. Raises ``ValueError`` naming what is out of range."""
    found = []
    for name in forms:
        if name not in BUILT:
            raise ValueError(f"form={name!r}: accepted: {', '.join(BUILT)}")
        form, tree = name.removesuffix("_tree"), name.endswith("_tree")
        if FORMS[form].cursors_only:
            found.append(cursor_spec(form, rounding))
            continue
        for buffer in buffers:
            for window in windows if FORMS[form].window else (0,):
                ratio = heads[1] // heads[0]
                common: dict[str, Any] = {"layout": layout, "buffer": buffer, "window": window, "kv_only": kv_only}
                common["tree"] = tree
                common |= {"records": records, "rounding": rounding}
                found.append(KernelSpec(form, recurrence.normal_form, *dims, ratio, io, state, **common))
    return list(dict.fromkeys(found))


def candidates(spec: KernelSpec, target: Target, rows: int, units: int, limit: int | None = None) -> Candidates:
    """Legal schedules for ``rows`` value-head rows on ``units`` cores or multiprocessors; at most ``limit`` of them.

    All move the same bytes (ir.cost), so a candidate's bound differs by the share of the units that it keeps busy.
    """
    default = space.default(spec, target)
    shares = {s: busy_share(s, spec, rows, units) for s in space.legal(spec, target)}
    most = max(shares.values())
    idle = [s for s, share in shares.items() if share < BUSY_SHARE * most and s != default]
    ordered = sorted(
        (s for s in shares if s not in idle), key=lambda s: (s != default, -shares[s] / most, distance(s, default))
    )
    pruned = [(s, f"keeps {shares[s]:.0%} of {units} cores busy, others {most:.0%}") for s in idle]
    return Candidates(ordered[:limit], pruned, len(shares))


def busy_share(schedule: Schedule, spec: KernelSpec, rows: int, units: int) -> float:
    """Mean share of the units at work while the cells of a launch are dealt out in turns."""
    fields = asdict(schedule)
    if spec.recurrence is None:
        return 1.0
    blocks = math.ceil(spec.V / fields["block_v"]) if "block_v" in fields else fields["splits"]
    cells = rows * blocks
    slots = units * fields.get("ctas_per_sm", 1)
    return cells / (math.ceil(cells / slots) * slots)


def distance(schedule: Schedule, other: Schedule) -> tuple[int, str]:
    """How many fields differ; the text makes the order total."""
    mine, theirs = schedule.to_dict(), other.to_dict()
    return sum(mine[name] != theirs.get(name) for name in mine), schedule_text(schedule)


def schedule_text(schedule: Schedule) -> str:
    """Canonical JSON: equal texts, equal schedules."""
    return json.dumps(schedule.to_dict(), sort_keys=True)


def schedule_digest(schedule: Schedule) -> str:
    return hashlib.sha256(schedule_text(schedule).encode()).hexdigest()[:8]


def folder_name(spec: KernelSpec, schedule: Schedule) -> str:
    """Of a candidate, below the folder of all."""
    return f"{spec.name}-{schedule_digest(schedule)}"
