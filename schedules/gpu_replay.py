"""verify on CUDA where a window has more tokens, or tokens that write more, than registers hold at once: the row's
records go into the state in registers, and so does each token once it is read out. Memory sees none of it: the same
records are appended, and only a fold writes the state back."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.schedules.gpu_ring import ring_registers
from kvbuffer_codegen.schedules.gpu_state import fold_pending, load_state, store_state
from kvbuffer_codegen.schedules.gpu_tile import F32, Cell
from kvbuffer_codegen.schedules.gpu_token import append_token, compute_token, load_token, token_registers
from kvbuffer_codegen.schedules.gpu_window import (
    advance_state,
    load_values,
    read_token,
    row_registers,
    solve_token,
    write_token,
    write_zeros,
)


@T.macro
def replay_row(cell: Cell, length: Any, folds: Any) -> None:
    """One row with at least one token."""
    g = cell.geo
    state = T.alloc_local((g.rows * g.columns,), F32)
    ring, token, rows = ring_registers(cell), token_registers(cell), row_registers(cell)
    if cell.count > 0:
        fold_pending(cell, ring, state)
        if folds:
            store_state(cell, state, True)
    else:
        load_state(cell, state)
    for t in T.serial(length):
        load_token(cell, token, t)
        load_values(cell, rows, t)
        compute_token(cell, token)
        if cell.group == 0:
            append_token(cell, token, t)
        rows.passed[0] = T.float32(1)
        read_token(cell, token, rows, ring, state, 0, 0)
        solve_token(cell, token, rows, 0)
        write_token(cell, token, rows, length, 0, t)
        advance_state(cell, token, rows, state)
    write_zeros(cell, length)
