"""The cursors of a token step, for all layers at once: advance after decode, step or flush, commit after verify,
commit_path after verify of a tree."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.forms import MOST_TOKENS, KernelSpec
from kvbuffer_codegen.ir.signature import (
    ADVANCE_FORMS,
    BASE,
    COUNT,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_PATH,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    WRITES,
)
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules.space import CpuSchedule, TargetLike
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def cpu(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """A cell takes ``rows`` batch rows."""
    row_of = ROWS[spec.form]

    @T.macro
    def body(arguments: Any) -> None:
        with T.Kernel(1):
            for i in T.serial(schedule.rows):
                if arguments.cell * schedule.rows + i < arguments.B:
                    one_row(arguments, arguments.cell * schedule.rows + i, row_of)

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, f"(B + {schedule.rows - 1}) // {schedule.rows}")


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    """A thread takes a batch row."""
    row_of = ROWS[spec.form]

    @T.macro
    def body(arguments: Any) -> None:
        with T.Kernel(T.ceildiv(arguments.B, schedule.threads), threads=schedule.threads) as block:
            row = block * schedule.threads + T.get_thread_binding(0)
            if row < arguments.B:
                one_row(arguments, row, row_of)

    func = common.build(spec, body)
    return Program(func, f"(B + {schedule.threads - 1}) // {schedule.threads}")


@T.macro
def one_row(a: Any, row: Any, row_of: Any) -> None:
    """``row_of(arguments, row, slot)`` where the row's slot exists and its kernels ran; then its window is closed. A
    slot out of range is reported, -1 is padding."""
    slot = T.alloc_local((1,), "int64")
    slot[0] = common.index_words(a.slots, row)[0]
    if common.in_range(*common.index_words(a.slots, row), a.P):
        if a.cursors[WINDOW, slot[0]] != SKIPPED:
            row_of(a, row, slot)
        a.cursors[WINDOW, slot[0]] = 0
    else:
        common.report_index(a, *common.index_words(a.slots, row))


@T.macro
def advance_row(a: Any, row: Any, slot: Any) -> None:
    folds = T.alloc_local((1,), "int32")
    decode = a.form == ADVANCE_FORMS["decode"]
    folds[0] = T.if_then_else(decode, overflows(a, slot[0], 1), pending(a, slot[0]))
    apply_fold(a, slot[0], folds[0])
    if decode:
        a.cursors[COUNT, slot[0]] = a.cursors[COUNT, slot[0]] + 1
    if a.form == ADVANCE_FORMS["step"]:
        a.cursors[KV_ONLY, slot[0]] = 0
        count_write(a, slot[0])


@T.macro
def commit_row(a: Any, row: Any, slot: Any) -> None:
    """Nothing without a window, whatever is accepted."""
    accepted = T.alloc_local((1,), "int32")
    folds = T.alloc_local((1,), "int32")
    accepted[0] = 0
    if a.cursors[WINDOW, slot[0]] > 0:
        if common.in_range(*common.index_words(a.accepted, row), a.cursors[WINDOW, slot[0]] + 1):
            accepted[0] = common.index_words(a.accepted, row)[0]
        else:
            a.cursors[FAULT, slot[0]] = a.cursors[FAULT, slot[0]] | FAULT_ACCEPTED
        close_window(a, slot, accepted, folds)


@T.macro
def close_window(a: Any, slot: Any, accepted: Any, folds: Any) -> None:
    folds[0] = overflows(a, slot[0], a.cursors[WINDOW, slot[0]])
    apply_fold(a, slot[0], folds[0])
    a.cursors[COUNT, slot[0]] = a.cursors[COUNT, slot[0]] + accepted[0]


@T.macro
def commit_path_row(a: Any, row: Any, slot: Any) -> None:
    """As commit, and a path that is none counts as 0."""
    accepted = T.alloc_local((1,), "int32")
    folds = T.alloc_local((1,), "int32")
    good = T.alloc_local((1,), "int32")
    before = T.alloc_local((1,), "int32")
    accepted[0] = 0
    if a.cursors[WINDOW, slot[0]] > 0:
        if common.in_range(*common.index_words(a.accepted, row), a.cursors[WINDOW, slot[0]] + 1):
            accepted[0] = common.index_words(a.accepted, row)[0]
            most = T.max(T.max(a.buffer, a.kv_only), MOST_TOKENS)
            check_path(a, row, a.cursors[WINDOW, slot[0]], accepted[0], most, good, before)
            if good[0] == 0:
                accepted[0] = 0
                a.cursors[FAULT, slot[0]] = a.cursors[FAULT, slot[0]] | FAULT_PATH
        else:
            a.cursors[FAULT, slot[0]] = a.cursors[FAULT, slot[0]] | FAULT_ACCEPTED
        close_window(a, slot, accepted, folds)


@T.macro
def check_path(a: Any, row: Any, window: Any, accepted: Any, most: Any, good: Any, before: Any) -> None:
    """good[0]: whether the first ``accepted`` nodes of the row's path are a child of the history, a child of that, and
    so on, of a window of this many nodes; ``most``: what a row has room for. ``before``: room for a node."""
    good[0] = T.if_then_else(accepted <= T.min(a.path.shape[1], most), 1, 0)
    before[0] = -1
    for i in T.serial(T.if_then_else(good[0] == 1, accepted, 0)):
        if common.in_range(*common.index_words(a.path, row, i), T.min(window, a.parents.shape[1])):
            if tvm.tirx.Not(same(common.index_words(a.parents, row, common.index_words(a.path, row, i)[0]), before[0])):
                good[0] = 0
            before[0] = common.index_words(a.path, row, i)[0]
        else:
            good[0] = 0


def same(words: tuple[Any, Any], number: Any) -> Any:
    """Whether an index from :func:`common.index_words` is an int32 ``number``."""
    return tvm.tirx.all(words[0] == number, words[1] == number >> 31)


ROWS = {"advance": advance_row, "commit": commit_row, "commit_path": commit_path_row}


def overflows(a: Any, slot: Any, tokens: Any) -> Any:
    """1 where a row with records and this many tokens of its own exceeds its buffer: its kernels folded first."""
    capacity = T.if_then_else(a.cursors[KV_ONLY, slot] != 0, a.kv_only, a.buffer)
    return T.if_then_else(a.cursors[COUNT, slot] + tokens > capacity, pending(a, slot), 0)


def pending(a: Any, slot: Any) -> Any:
    """1 where the row has records."""
    return T.if_then_else(a.cursors[COUNT, slot] > 0, 1, 0)


@T.macro
def apply_fold(a: Any, slot: Any, folds: Any) -> None:
    """What the kernels folded is gone, and the row has a state. ``folds`` reads no cursor: they change here."""
    if folds == 1:
        a.cursors[BASE, slot] = common.record_row(a.cursors[BASE, slot], a.cursors[COUNT, slot], a.ring)
        a.cursors[COUNT, slot] = 0
        a.cursors[KV_ONLY, slot] = 0
        count_write(a, slot)


@T.macro
def count_write(a: Any, slot: Any) -> None:
    if int(a.cursors.shape[0]) > WRITES:
        a.cursors[WRITES, slot] = a.cursors[WRITES, slot] + 1
