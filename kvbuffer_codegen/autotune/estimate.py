"""About how long a CUDA candidate takes, before it is built: good enough to say which few are worth building.

A launch deals ``rows`` value heads, each in so many blocks, to multiprocessors. The busiest of them moves its tiles at
what its blocks have in flight over the life of a block, at most at its share of the bandwidth, or issues what they
compute, whichever takes longer; the last block then has its own way to go. Nothing is chosen by this: candidates are
timed.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kvbuffer_codegen.ir.forms import FORMS, STATES, KernelSpec
from kvbuffer_codegen.schedules.geometry import Geometry
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule

#: Of one multiprocessor of an H200, by measurement: bytes a microsecond; microseconds that a block waits for its
#: scalars, scores and barrier, and for memory; instructions of threads a microsecond, and of one thread.
BANDWIDTH, LIFE_US, ISSUE, THREAD_ISSUE = 32e3, 2.0, 224e3, 400.0
#: Instructions of a thread whatever its tile; of a value of the state: to load, read and reduce it.
THREAD, LOAD, READ, REDUCE = 150.0, 2.0, 1.0, 1.5
#: A register more than a thread may have costs a share of the time, and more with the square: what spills is dropped.
#: ``MARGIN``: registers by which the need may be underestimated.
SPILL, SPILLS, MARGIN = 0.02, 4e-4, 4
#: Where one more block would fit a multiprocessor with registers enough, that one is the better guess.
ROOMY, SHARED = 1.2, 227 * 1024
#: Tensor cores: instructions of a read of a value, against ``READ``.
TENSOR = 0.25
#: Neighbouring lanes that touch fewer bytes than a line of the cache.
LINE, NARROW = 128, 1.1


def microseconds(schedule: Schedule, spec: KernelSpec, rows: int, units: int, default: Schedule | None = None) -> float:
    """Of a call of ``rows`` value-head rows on ``units`` multiprocessors; 1 where there is nothing to tell apart.

    ``default`` is known not to spill: what it is said to need beyond what it has, its like does not need either.
    """
    if not isinstance(schedule, GpuSchedule) or spec.recurrence is None or spec.form == "compact":
        return 1.0
    g = Geometry(spec, schedule)
    blocks = math.ceil(rows * g.blocks / units)  # of the busiest multiprocessor
    values = schedule.block_v * g.padded_k * g.sweeps
    tile = values * STATES[spec.state]
    in_flight = min(blocks, schedule.ctas_per_sm) * tile / g.sweeps
    moved = blocks * tile * (2 if FORMS[spec.form].writes_state else 1)
    instructions = _instructions(g, values)
    busy = max(moved / min(BANDWIDTH, in_flight / LIFE_US), blocks * instructions / ISSUE)
    last = LIFE_US * g.sweeps + instructions / schedule.threads / THREAD_ISSUE
    needed = g.pressure + MARGIN - (_excess(g, default) if default and _alike(schedule, default) else 0)
    spilled = max(0, needed - schedule.registers)
    narrow = NARROW if schedule.lanes * g.piece * STATES[spec.state] < LINE else 1.0
    roomy = ROOMY if _roomy(g, needed) else 1.0
    return (busy + last) * narrow * roomy * (1 + SPILL * spilled + SPILLS * spilled**2)


def _excess(g: Geometry, default: Schedule) -> int:
    """Registers that ``default`` is said to need and has not; half of them for another tile of a lane."""
    assert isinstance(default, GpuSchedule)
    known = Geometry(g.spec, default)
    excess = max(0, known.pressure + MARGIN - default.registers)
    return excess if (known.rows, known.columns) == (g.rows, g.columns) else excess // 2


def _alike(schedule: Schedule, other: Schedule) -> bool:
    """Of one way to compute: what is no size is used by both or by neither."""
    mine, theirs = schedule.to_dict(), other.to_dict()
    return all(bool(mine[name]) == bool(theirs[name]) for name in mine)


def _roomy(g: Geometry, needed: int) -> bool:
    s = g.schedule
    more = replace(s, ctas_per_sm=s.ctas_per_sm + 1)
    listed = more.ctas_per_sm in s.choices["ctas_per_sm"] and g.shared_bytes * more.ctas_per_sm <= SHARED
    return listed and more.registers >= needed


def _instructions(g: Geometry, values: int) -> float:
    """Of all threads of one block."""
    s, tokens = g.schedule, max(g.spec.tokens, 1)
    reads = g.reads * tokens
    scores = g.history * g.rank * reads * g.padded_k * READ
    if s.mma:
        return THREAD * s.threads * 2 + TENSOR * (values * reads + scores) + LOAD * values
    sums = values / g.columns * reads * REDUCE  # of every row, over its lanes
    return THREAD * s.threads + scores + values * (LOAD + reads * READ) + sums
