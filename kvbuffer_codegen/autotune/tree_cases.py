"""Trees for cases: parents of every kind, and calls of ``compact`` and ``commit_path`` with known answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvbuffer_codegen.ir.forms import KernelSpec, most_accepted, ring_rows
from kvbuffer_codegen.ir.signature import (
    BASE,
    COUNT,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_PATH,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    WRITES,
    cursor_rows,
)

Tensors = dict[str, Any]
Ints = npt.NDArray[np.int64]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NODES, LAYERS = 12, 2  #: of a compact case


def draw_parents(rows: int, nodes: int, rng: np.random.Generator) -> Ints:
    """[rows, nodes], topologically ordered: random trees, a chain, only children of the history, a binary tree, a chain
    with a last branch."""
    t = np.arange(nodes)
    kinds = [rng.integers(-1, t), t - 1, np.full(nodes, -1), (t - 1) // 2, np.where(t == nodes - 1, t // 2 - 1, t - 1)]
    return np.stack([rng.integers(-1, t) if i % 6 == 5 else kinds[i % 6] for i in range(rows)])


def path_to(parents: Ints, node: int) -> list[int]:
    """The nodes from a child of the history down to ``node``."""
    path = [node] if node >= 0 else []
    while path and parents[path[0]] >= 0:
        path.insert(0, int(parents[path[0]]))
    return path


def draw_paths(parents: Ints, windows: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """(path [B, T], accepted [B]) within each row's window: a node at random and those before it; what lies behind the
    path is no node."""
    path, accepted = np.full(parents.shape, 10**6), np.zeros(len(parents), np.int64)
    for b, window in enumerate(windows):
        nodes = path_to(parents[b], int(rng.integers(-1, window))) if window else []
        path[b, : len(nodes)], accepted[b] = nodes, len(nodes)
    return path, accepted


class CompactCase:
    """A call of ``compact``, with the interface of :class:`~kvbuffer_codegen.autotune.cases.Case`."""

    def __init__(self, spec: KernelSpec, seed: int = 0, H: int = 2):
        rng = np.random.default_rng(seed)
        self.spec, B = spec, 10
        R, N, HV = ring_rows(spec.buffer, spec.kv_only, NODES) + 1, B + 2, H * spec.ratio
        most = most_accepted(spec.buffer, spec.kv_only)
        self.parents, windows = draw_parents(B, NODES, rng), rng.integers(0, NODES + 1, B)
        windows[1:3] = NODES
        self.path, self.accepted = draw_paths(self.parents, windows, rng)
        self.path[1], self.accepted[1] = np.arange(NODES), min(NODES, most)  # a whole chain: nothing moves
        self.slots, self.rings = rng.permutation(N)[:B], rng.permutation(N)[:B]
        self.slots[4] = self.rings[4] = -1
        cursors = np.zeros((cursor_rows(spec), N + 1), np.int32)
        cursors[BASE, :N], cursors[COUNT, :N] = rng.integers(0, R, N), rng.integers(0, spec.buffer + 1, N)
        for slot, window in zip(self.slots, windows, strict=True):
            cursors[WINDOW, slot] = window * (slot >= 0)
        self.first = np.where(self.slots >= 0, cursors[BASE, self.slots] + cursors[COUNT, self.slots], 0)
        self.rows = R
        self.before: Tensors = {}
        for f in spec.record_layout.fields:
            wide = spec.wide(f.axis)
            shape = (LAYERS, N, R, H if f.heads == "key" else HV, *wide)
            dtype = DTYPES[f.stored(spec.io)]
            self.before[f.name] = torch.from_numpy(rng.standard_normal(shape)).to(dtype)
        indices = {"slots": self.slots, "rings": self.rings, "accepted": self.accepted}
        indices |= {"path": self.path, "parents": self.parents}
        self.before |= {name: torch.from_numpy(x.astype(np.int32)) for name, x in indices.items()}
        self.before["cursors"] = torch.from_numpy(cursors)

    def tensors(self, device: torch.device | str = "cpu") -> Tensors:
        return {name: x.to(device, copy=True) for name, x in self.before.items()}

    def wanted(self, after: Mapping[str, torch.Tensor]) -> Tensors:
        """float64 values of what must have moved, NaN elsewhere."""
        made = {}
        for f in self.spec.record_layout.fields:
            before = self.before[f.name].double()
            made[f.name] = torch.full_like(before, torch.nan)
            for b, ring in enumerate(self.rings):
                for i in range(self.accepted[b] if ring >= 0 else 0):
                    source, target = self.first[b] + self.path[b, i], self.first[b] + i
                    made[f.name][:, ring, target % self.rows] = before[:, ring, source % self.rows]
        return made


def path_case(spec: KernelSpec, seed: int = 0) -> tuple[Tensors, torch.Tensor]:
    """Arguments of a call of ``commit_path``, and the cursors that it must leave. Among the rows: counts out of range,
    paths that begin inside the tree, jump, go back, leave the window, or are longer than a row has room for."""
    L, C, R, P, B, T = 5, 7, 40, 26, 24, 18
    rng = np.random.default_rng(seed)
    cursors = np.zeros((cursor_rows(spec), P + 1), np.int32)
    cursors[BASE, :P], cursors[KV_ONLY, :P] = rng.integers(0, R, P), rng.integers(0, 2, P)
    cursors[COUNT, :P] = rng.integers(0, np.where(cursors[KV_ONLY, :P], C, L) + 1)
    cursors[WINDOW, :P] = rng.integers(0, T + 1, P)
    slots = rng.permutation(P)[:B]
    cursors[WINDOW, slots[:9]], cursors[WINDOW, slots[9]] = T, 0
    parents = draw_parents(B, T, rng)
    path, accepted = draw_paths(parents, cursors[WINDOW, slots], rng)
    parents[:9] = np.arange(-1, T - 1)
    path[:9], accepted[:9] = np.arange(T), 3
    accepted[0], accepted[1], accepted[2], accepted[3] = T + 1, -1, 17, 16
    path[4, 0], path[5, 1], path[6, 2], path[7, 0], path[8, 1] = 1, 2, 0, -1, T
    accepted[9] = 1  # without a window: nothing
    cursors[WINDOW, slots[12]] = SKIPPED
    faults = {0: FAULT_ACCEPTED, 1: FAULT_ACCEPTED, 2: FAULT_PATH}
    faults |= dict.fromkeys((4, 5, 6, 7, 8), FAULT_PATH)
    wanted = cursors.copy()
    slots[10:12] = -1
    for b, s in enumerate(slots):
        if s < 0:
            continue
        base, n, flag, window = (int(x) for x in cursors[:FAULT, s])
        if window > 0 and n and n + window > (C if flag else L):
            base, n, flag = (base + n) % R, 0, 0
            wanted[WRITES:, s] += 1
        wanted[:WRITES, s] = [base, n + (0 if b in faults or window <= 0 else accepted[b]), flag, 0, faults.get(b, 0)]
    given: Tensors = {"cursors": torch.from_numpy(cursors), "slots": slots, "accepted": accepted}
    given |= {"path": path, "parents": parents}
    given = {name: x if name == "cursors" else torch.from_numpy(x.astype(np.int32)) for name, x in given.items()}
    return given | {"buffer": L, "kv_only": C, "ring": R}, torch.from_numpy(wanted)
