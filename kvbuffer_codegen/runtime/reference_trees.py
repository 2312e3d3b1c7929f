"""What trees add to the torch reference: which parents and paths are good, and the states that nodes start from."""

from __future__ import annotations

import torch
from torch import Tensor

from kvbuffer_codegen.ir.forms import most_accepted


def topological(parents: Tensor, lengths: Tensor) -> Tensor:
    """bool [B]: whether the parent of each of the first ``lengths[b]`` nodes t is one of -1..t-1."""
    t = torch.arange(parents.shape[1], device=parents.device)
    return ((parents >= -1) & (parents < t) | (t >= lengths[:, None])).all(1)


def bad_parents(parents: Tensor, slots: Tensor, lengths: Tensor | None) -> tuple[int, int] | None:
    """(row, node) of the first parent that is not one of -1..t-1, of the rows with a slot and the nodes within their
    lengths; tensors on a CPU."""
    t = torch.arange(parents.shape[1])
    wrong = ((parents < -1) | (parents >= t)) & (slots[:, None] >= 0)
    wrong &= t < (parents.shape[1] if lengths is None else lengths[:, None])
    where = wrong.nonzero().tolist()
    return (where[0][0], where[0][1]) if where else None


def good_paths(path: Tensor, accepted: Tensor, parents: Tensor, window: Tensor, buffer: int, kv_only: int) -> Tensor:
    """bool [B]: whether the first ``accepted`` of ``path`` are nodes of the window, the first a child of the history,
    each of the others one of its predecessor, and no more than a row has room for."""
    i = torch.arange(path.shape[1], device=path.device)
    most = min(path.shape[1], most_accepted(buffer, kv_only))
    node = (path >= 0) & (path < window[:, None]) & (path < parents.shape[1])
    follows = torch.nn.functional.pad(path, (1, 0), value=-1)[:, :-1]
    good = node & (parents.gather(1, torch.where(node, path, 0)) == follows)
    return (good | (i >= accepted[:, None])).all(1) & (accepted <= most)


class Nodes:
    """The states of the nodes of every row's tree: [1 + T, B, HV, V, K], the history's first."""

    def __init__(self, history: Tensor, parents: Tensor, lengths: Tensor) -> None:
        B, T = parents.shape
        self.rows = torch.arange(B, device=parents.device)
        there = torch.arange(T, device=parents.device) < lengths[:, None]
        self.place = torch.where(there, parents, -1) + 1
        self.states = history.new_empty(1 + T, *history.shape)
        self.states[0] = history

    def before(self, t: int) -> Tensor:
        return self.states[self.place[:, t], self.rows]

    def after(self, t: int, states: Tensor) -> None:
        self.states[1 + t] = states
