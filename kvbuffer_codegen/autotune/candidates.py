"""Which kernels a request means, and which of their schedules are worth building, best guess first."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvbuffer_codegen.autotune.estimate import microseconds
from kvbuffer_codegen.ir.forms import BUILT, FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import Target

#: A candidate that keeps less than this share of the busiest candidate's cores or multiprocessors at work cannot win.
BUSY_SHARE = 0.6
#: A schedule that differs in one field from one that is tried counts as slower by this share, in two by its square.
ALIKE = 0.1
#: A short list has none that is expected to take so many times as long as the best.
HOPELESS = 1.6


@dataclass(frozen=True)
class Candidates:
    """``schedules``: the default first, then by what is expected of them (:func:`spread`). ``pruned``: those that the
    cost model rules out, with the reason. ``legal``: how many there are in all.
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


def candidates(
    spec: KernelSpec, target: Target, rows: int | Sequence[int], units: int, limit: int | None = None
) -> Candidates:
    """Legal schedules for launches of so many value-head rows on ``units`` cores or multiprocessors; at most ``limit``
    of them, the default first.

    All move the same bytes (ir.cost), so a candidate's bound differs by the share of the units that it keeps busy.
    Those that :func:`~kvbuffer_codegen.schedules.space.suggested` knows come first; what
    :mod:`~kvbuffer_codegen.autotune.estimate` expects orders the others (:func:`spread`).
    """
    sizes = [rows] if isinstance(rows, int) else sorted(set(rows), reverse=True)
    default = space.default(spec, target)
    legal = space.legal(spec, target)
    shares = {s: busy_share(s, spec, sizes[0], units) for s in legal}
    most = max(shares.values())
    idle = [s for s, share in shares.items() if share < BUSY_SHARE * most and s != default]
    left = sorted(set(legal) - {*idle, default}, key=lambda s: (-shares[s] / most, distance(s, default)))
    first = [s for s in space.suggested(spec, target) if s in left]
    expected = spread(spec, default, left, sizes, units, limit or len(left) + 1)
    ordered = list(dict.fromkeys([default, *first, *expected]))[: limit or None]
    pruned = [(s, f"keeps {shares[s]:.0%} of {units} cores busy, others {most:.0%}") for s in idle]
    return Candidates(ordered, pruned, len(shares))


def spread(
    spec: KernelSpec, default: Schedule, others: Sequence[Schedule], sizes: Sequence[int], units: int, limit: int
) -> list[Schedule]:
    """The default and, size by size in turns, what is expected to be fastest there, where a schedule that differs in
    one field from one already taken counts as slower: few candidates then cover small and large launches, and unlike
    shapes. Fewer than ``limit`` where the rest are hopeless; all where that many are asked for. Of equal ones the first
    of ``others`` is taken: all in their order where nothing is expected of any.
    """
    expected = [[microseconds(s, spec, rows, units, default) for s in others] for rows in sizes]
    if all(us == expected[0][0] for one in expected for us in one):
        return [default, *others][:limit]
    best = [min(us) for us in expected]
    weight, taken, left = [1.0] * len(others), [default], set(range(len(others)))
    fields = [s.to_dict() for s in others]
    hopeful, turn, new = set(range(len(sizes))), -1, True
    while left and hopeful and len(taken) < limit:
        if new:
            last = taken[-1].to_dict()
            for i in left:
                weight[i] *= 1 + ALIKE ** _differing(fields[i], last)
        turn = (turn + 1) % len(sizes)
        chosen = min(left, key=lambda i: (expected[turn][i] / best[turn] * weight[i], i))
        new = limit == len(others) + 1 or expected[turn][chosen] <= HOPELESS * best[turn]
        if new:
            left.remove(chosen)
            taken.append(others[chosen])
        else:
            hopeful.discard(turn)
    return taken[:limit]


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
    return _differing(schedule.to_dict(), other.to_dict()), schedule_text(schedule)


def _differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> int:
    return sum(mine[name] != theirs.get(name) for name in mine)


def schedule_text(schedule: Schedule) -> str:
    """Canonical JSON: equal texts, equal schedules."""
    return json.dumps(schedule.to_dict(), sort_keys=True)


def schedule_digest(schedule: Schedule) -> str:
    return hashlib.sha256(schedule_text(schedule).encode()).hexdigest()[:8]


def folder_name(spec: KernelSpec, schedule: Schedule) -> str:
    """Of a candidate, below the folder of all."""
    return f"{spec.name}-{schedule_digest(schedule)}"
