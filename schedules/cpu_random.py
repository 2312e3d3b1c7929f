"""Random numbers of stochastic rounding on a CPU: a line of the tile at a time (``ir.philox``)."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.philox import ROUNDS, WORDS
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.cpu import Cell


@T.macro
def draw(c: Any, line: Any) -> None:
    """``offsets[x]`` of a line of the tile, for the write that is at hand."""
    for g in T.serial(c.random_groups):
        c.random[0][0, g] = T.cast(first_group(c, line) + g, "uint32")
        c.random[0][1, g] = T.cast(c.head[0], "uint32")
        c.random[0][2, g] = T.cast(c.writes_before[0], "uint32")
        c.random[0][3, g] = T.uint32(0)
    for i in list(range(ROUNDS)):
        for g in T.serial(c.random_groups):
            for word in list(range(WORDS)):
                c.random[(i + 1) % 2][word, g] = common.philox_round(blocks(c, i, g), c.seed[0], i)[word]
    for g in T.serial(c.random_groups):
        for word in list(range(WORDS)):
            c.offsets[g * WORDS + word] = common.offset_of(c.random[ROUNDS % 2][word, g], c.spec.state)


def blocks(c: Cell, i: int, g: Any) -> list[Any]:
    """The four words before round ``i``."""
    return [c.random[i % 2][word, g] for word in range(WORDS)]


def first_group(c: Cell, line: Any) -> Any:
    """Number of the line's first group in the whole tile."""
    if c.spec.layout == "VK":
        return (c.block[0] * c.V + line) * c.random_groups
    return line * -(-c.spec.V // WORDS) + c.block[0] * c.random_groups
