"""Random numbers of stochastic rounding on CUDA: a block of four for the neighbours of an access (``ir.philox``)."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.philox import ROUNDS, WORDS
from kvbuffer_codegen.ir.signature import WRITES
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import ceil_div
from kvbuffer_codegen.schedules.gpu_tile import Cell


@T.macro
def draw(cell: Cell, line: Any, place: Any, writes: Any, offsets: Any, at: Any, count: int) -> None:
    """``offsets[at ...]`` for ``count`` neighbours from ``place`` of a line of the tile on, in one block of four."""
    x = [T.alloc_local((WORDS,), "uint32") for _ in range(2)]
    x[0][0] = T.cast(line * ceil_div(width(cell), WORDS) + place // WORDS, "uint32")
    x[0][1] = T.cast(cell.hv, "uint32")
    slot = cell.slot if cell.origin is None else cell.origin
    x[0][2] = T.cast(cell.args.cursors[WRITES, slot] + writes, "uint32")
    x[0][3] = T.uint32(0)
    for i in list(range(ROUNDS)):
        for word in list(range(WORDS)):
            x[(i + 1) % 2][word] = round_of(cell, x[i % 2], i)[word]
    for e in list(range(count)):
        offsets[at + e] = common.offset_of(word_of(x[ROUNDS % 2], place, e, count), cell.spec.state)


def width(cell: Cell) -> int:
    """Values of a line: what is contiguous in the tile."""
    return cell.spec.K if cell.spec.layout == "VK" else cell.spec.V


def round_of(cell: Cell, x: Any, i: int) -> list[Any]:
    return common.philox_round([x[word] for word in range(WORDS)], cell.args.cursors[WRITES, cell.args.P], i)


def word_of(x: Any, place: Any, e: int, count: int) -> Any:
    """The word of neighbour ``e``: known by its number where whole blocks are drawn."""
    if count == WORDS:
        return x[e]
    i = (place + e) % WORDS
    return T.Select(i == 0, x[0], T.Select(i == 1, x[1], T.Select(i == 2, x[2], x[3])))
