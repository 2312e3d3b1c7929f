"""What is timed: whole buffer cycles over pools that no cache holds, and the plain read that the times are held
against.

The pool is at least twice the last-level cache and is walked in groups of B rows, so a row is cold when its turn
comes. Occupancies are staggered over the slots: every call meets rows of every occupancy, and a cycle lets each row
fold as often as serving does.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvbuffer_codegen.autotune.cases import DTYPES, SCALES, Stream, Tensors, tile_tensors
from kvbuffer_codegen.autotune.cases import Plan as RowPlan
from kvbuffer_codegen.ir import cost
from kvbuffer_codegen.ir.forms import FORMS, MOST_NODES, KernelSpec, ring_rows
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.signature import BASE, COUNT, WINDOW, cursor_rows, signature

CACHE_MULTIPLE = 2
CURSOR_SLOTS = 4096
MAX_GROUPS = 64  #: a pool of fewer bytes than the cache is what a tiny model has in serving, too
READ_BYTES = {"cpu": 2**28, "cuda": 2**30}
#: Nodes of a window whose path is committed.
TREE_NODES = 8


@dataclass(frozen=True)
class Workload:
    """``calls[phase][group]``: arguments of one call. ``bytes``: what a call must move, mean over the cycle (ir.cost).
    ``pool``: the tensor that makes it large, the states of all slots.
    """

    spec: KernelSpec
    rows: int
    calls: list[list[list[Any]]]
    bytes: float
    pool: torch.Tensor

    @property
    def phases(self) -> int:
        return len(self.calls)


def accepted(window: int) -> int:
    """Tokens of a verify window that the timed workload accepts: ceil(0.7 T)."""
    return math.ceil(0.7 * window)


def cycle(spec: KernelSpec) -> list[int]:
    """Occupancies that a row goes through, call after call, until they repeat."""
    if spec.form == "step":
        return [0]
    if FORMS[spec.form].layered:
        return [spec.buffer]
    tokens, added = max(spec.tokens, 1), accepted(spec.window) if spec.form == "verify" else 1
    found: list[int] = []
    n = added
    while n not in found:
        found.append(n)
        n = (0 if n + tokens > spec.buffer else n) + added
    return found


def make_workload(spec: KernelSpec, recurrence: Recurrence | None, rows: int, H: int, device: torch.device) -> Workload:
    """Calls of ``rows`` batch rows with ``H`` key heads. Allocates the pool; values are those of a few real tokens,
    repeated.
    """
    if recurrence is None:
        return _cursor_workload(spec, rows, device)
    HV, groups = H * spec.ratio, groups_of(spec, rows, H, last_level_cache(device))
    P = groups * rows
    occupancies = cycle(spec)
    targets = rows if spec.form == "publish" else 0  # slots behind those of the groups
    shared = _shared(spec, recurrence, P + targets, H, device) | _inputs(spec, rows, H, device) | _tree(rows, device)
    shared["dst"] = torch.arange(P, P + rows, dtype=torch.int32, device=device)
    if spec.tree:
        shared["parents"] = shared["parents"][:, : spec.window].contiguous()
    slots = torch.arange(P, dtype=torch.int32, device=device).view(groups, rows)
    calls = []
    for phase in range(len(occupancies)):
        cursors = _cursors(spec, P + targets, phase, device)
        given = [{**shared, "cursors": cursors, "slots": slots[g], "rings": slots[g]} for g in range(groups)]
        calls.append([[one[a.name] for a in signature(spec)] for one in given])
    folds = [n > 0 and (FORMS[spec.form].folds == "pending" or n + spec.tokens > spec.buffer) for n in occupancies]
    costs = [cost.row_cost(spec, HV, n, fold).bytes for n, fold in zip(occupancies, folds, strict=True)]
    if spec.form == "compact":
        costs = [2 * 3 * cost.record_bytes(spec, HV)]
    return Workload(spec, rows, calls, rows * sum(costs) / len(costs), shared["state"])


def groups_of(spec: KernelSpec, rows: int, H: int, cache: int) -> int:
    """Groups of ``rows`` slots that a pool must have to exceed a cache of so many bytes."""
    group_bytes = cost.state_bytes(spec, H * spec.ratio) * rows
    return min(max(2, math.ceil(CACHE_MULTIPLE * cache / group_bytes)), MAX_GROUPS)


def pass_bytes(spec: KernelSpec, rows: int, H: int, phases: int, cache: int) -> float:
    """About what one pass over a workload moves, on a device with so many bytes of cache."""
    if spec.recurrence is None:
        return float(36 * CURSOR_SLOTS)
    per_row = cost.row_cost(spec, H * spec.ratio, spec.buffer / 2, FORMS[spec.form].folds == "pending").bytes
    return per_row * rows * groups_of(spec, rows, H, cache) * min(phases, len(cycle(spec)))


def _cursors(spec: KernelSpec, P: int, phase: int, device: torch.device) -> torch.Tensor:
    """Slot p is at place (p + phase) of the cycle."""
    occupancies = cycle(spec)
    made = torch.zeros((cursor_rows(spec), P + 1), dtype=torch.int32)
    counts = torch.tensor([occupancies[(p + phase) % len(occupancies)] for p in range(P)])
    made[COUNT, :P] = counts
    made[BASE, :P] = torch.arange(P) % _ring(spec)
    made[WINDOW, :P] = TREE_NODES if spec.form == "compact" else 0
    return made.to(device)


def _ring(spec: KernelSpec) -> int:
    return ring_rows(spec.buffer, spec.kv_only, TREE_NODES if spec.form == "compact" else max(spec.tokens, 1))


def _shared(spec: KernelSpec, recurrence: Recurrence, P: int, H: int, device: torch.device) -> Tensors:
    """State and rings of P slots: those of one row of two key heads, repeated."""
    R, few = _ring(spec), min(H, 2)
    row = [RowPlan(0, 0, 0, 0, False, 1)]
    stream = Stream(replace(spec, form="decode", window=0, tree=False), recurrence, row, few, np.random.default_rng(0))
    repeats = -(-H // few)

    def spread(x: np.ndarray, dtype: str, heads: int, *lead: int) -> torch.Tensor:
        """[few heads, ...] to [*lead, heads, ...]."""
        tile = torch.from_numpy(np.concatenate([x] * repeats)[:heads]).to(DTYPES[dtype]).to(device)
        return tile.expand(*lead, *tile.shape).contiguous()

    made = {}
    for name, x in tile_tensors(spec, stream.start[0]).items():
        dtype = "float32" if name in SCALES else spec.state
        made[name] = spread(x.float().numpy(), dtype, H * spec.ratio, P)
    for f in spec.record_layout.fields:
        heads = H if f.heads == "key" else H * spec.ratio
        made[f.name] = spread(stream.history[0][f.name][0], f.stored(spec.io), heads, P, R)
    if FORMS[spec.form].layered:
        made = {name: x[None] for name, x in made.items()}
    return made


def _tree(rows: int, device: torch.device) -> Tensors:
    """A binary tree of drafts, and of it an accepted path."""
    parents = (torch.arange(MOST_NODES, dtype=torch.int32) - 1) // 2
    made = {"accepted": torch.tensor(3), "path": torch.tensor([0, 2, 5]), "parents": parents}
    return {name: x.int().expand(rows, *x.shape).contiguous().to(device) for name, x in made.items()}


def _inputs(spec: KernelSpec, rows: int, H: int, device: torch.device) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    made: Tensors = {}
    for a in signature(spec):
        if getattr(a, "role", "") in ("input", "parameter", "out"):
            sizes = {"B": rows, "H": H, "HV": H * spec.ratio, "Y": 1}
            shape = [s if isinstance(s, int) else sizes[s] for s in a.shape]  # type: ignore[union-attr]
            made[a.name] = (0.5 * torch.randn(shape, generator=generator)).to(DTYPES[a.dtype]).to(device)
    if spec.form == "verify":
        made["lengths"] = torch.full((rows,), spec.window, dtype=torch.int32, device=device)
    return made


def _cursor_workload(spec: KernelSpec, rows: int, device: torch.device) -> Workload:
    cursors = torch.zeros((cursor_rows(spec), CURSOR_SLOTS + 1), dtype=torch.int32, device=device)
    cursors[WINDOW] = TREE_NODES
    groups = min(CURSOR_SLOTS // rows, MAX_GROUPS)
    slots = torch.randperm(CURSOR_SLOTS, generator=torch.Generator().manual_seed(0)).int().to(device)
    given: Tensors = {"cursors": cursors, "form": 0, "buffer": 16, "kv_only": 0, "ring": 32}
    given |= _tree(rows, device)
    batches = [{**given, "slots": slots[g * rows : (g + 1) * rows]} for g in range(groups)]
    calls = [[one[a.name] for a in signature(spec)] for one in batches]
    return Workload(spec, rows, [calls], rows * 4 * (1 + 4 + 4), cursors)


class Timer:
    """Times passes over the given phases of a workload, caches cold."""

    def __init__(self, kernel: Callable[..., Any], workload: Workload, phases: int):
        step = max(1, workload.phases // phases)
        self.calls = [call for phase in workload.calls[::step][:phases] for call in phase]
        self.kernel = kernel

    def once(self) -> float:
        """Microseconds of a call, mean over one pass."""
        begin = time.perf_counter()
        for call in self.calls:
            self.kernel(*call)
        return (time.perf_counter() - begin) * 1e6 / len(self.calls)


class GraphTimer(Timer):
    """The same on a GPU: one CUDA graph of all calls, timed by events."""

    def __init__(self, kernel: Callable[..., Any], workload: Workload, phases: int):
        super().__init__(kernel, workload, phases)
        for call in self.calls[:1]:
            kernel(*call)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for call in self.calls:
                kernel(*call)

    def once(self) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / len(self.calls)


def timer(kernel: Callable[..., Any], workload: Workload, phases: int, device: torch.device) -> Timer:
    """A timer that has run once already, so that pages, code and clocks are warm."""
    made = (GraphTimer if device.type == "cuda" else Timer)(kernel, workload, phases)
    made.once()
    return made


def last_level_cache(device: torch.device) -> int:
    """Bytes of the cache that a pool must exceed."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_cache_bytes(p) for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(sizes, default=32 * 2**20)


def _cache_bytes(path: Path) -> int:
    text = path.read_text().strip()
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit


def read_bandwidth(device: torch.device, pool: torch.Tensor | None = None, repeats: int = 5) -> float:
    """Bytes a second of one pass that reads ``pool`` (default: READ_BYTES of its own) and writes next to nothing.

    The roofline, best of ``repeats``: torch's sum of float32, on all threads of a CPU; the bits of
    other dtypes are read as float32.
    """
    data = (
        torch.ones(READ_BYTES[device.type] // 4, device=device) if pool is None else pool.view(-1).view(torch.float32)
    )
    data.sum()
    return data.nbytes / min(_seconds(data, device) for _ in range(repeats))


def _seconds(data: torch.Tensor, device: torch.device) -> float:
    if device.type == "cpu":
        start = time.perf_counter()
        data.sum()
        return time.perf_counter() - start
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    data.sum()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def units(device: torch.device) -> int:
    """Multiprocessors of a GPU, cores that this process may use of a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return len(os.sched_getaffinity(0))
