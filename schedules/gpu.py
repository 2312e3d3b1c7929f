"""The CUDA templates: decode, step, verify (:func:`window`), flush and the cursor forms as TileLang programs at thread
level."""

from __future__ import annotations

import dataclasses
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.signature import (
    BASE,
    COUNT,
    FAULT,
    FAULT_LENGTH,
    FAULT_PARENT,
    FAULT_TARGET,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    WRITES,
)
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules.geometry import Alone, Geometry
from kvbuffer_codegen.schedules.gpu_channel import walk_row, walk_tokens
from kvbuffer_codegen.schedules.gpu_mma import run_window
from kvbuffer_codegen.schedules.gpu_mma_scaled import run_scaled
from kvbuffer_codegen.schedules.gpu_records import AloneCell, run_records, with_arrays, with_fold_arrays
from kvbuffer_codegen.schedules.gpu_replay import replay_row
from kvbuffer_codegen.schedules.gpu_ring import ring_registers
from kvbuffer_codegen.schedules.gpu_state import fold_pending, load_state, store_state
from kvbuffer_codegen.schedules.gpu_sweep import sweep
from kvbuffer_codegen.schedules.gpu_tile import F32, Cell
from kvbuffer_codegen.schedules.gpu_tree import find_parents
from kvbuffer_codegen.schedules.gpu_window import run_row, write_zeros
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def window(spec: KernelSpec, schedule: GpuSchedule) -> Program:
    """decode, step or verify. Blocks: tiles of V, then value heads, then batch rows, in one dimension."""
    geo = Geometry(spec, schedule)

    @T.macro
    def body(a: Any) -> None:
        with T.Kernel(a.B * a.HV * geo.blocks, threads=schedule.threads) as block:
            T.annotate_min_blocks_per_sm(schedule.ctas_per_sm)
            assume_strides(spec, a)
            cell = place(geo, a, block, T.get_thread_binding(0))
            slot, slot_rest = common.index_words(a.slots, cell.b)
            ring, ring_rest = common.index_words(a.rings, cell.b)
            column = column_of(a, slot)
            count, base, kv_only = a.cursors[COUNT, column], a.cursors[BASE, column], a.cursors[KV_ONLY, column]
            row = dataclasses.replace(cell, slot=slot, ring=ring, count=count, base=base, kv_only=kv_only)
            exists = tvm.tirx.all(common.in_range(slot, slot_rest, a.P), common.in_range(ring, ring_rest, a.N))
            if spec.tree:
                if exists:
                    run_tree(row)
                else:
                    leave_row(cell)
            else:
                # One condition for all that must be known before the state is asked for: nothing is waited for twice.
                length, length_rest = common.index_words(a.lengths, cell.b) if spec.form == "verify" else (1, 0)
                if tvm.tirx.all(exists, common.in_range(length, length_rest, spec.tokens + 1), length > 0):
                    run_slot(row, length)
                else:
                    leave_row(cell)

    return Program(common.build(spec, body), f"B * HV * {geo.blocks}")


def flush(spec: KernelSpec, schedule: GpuSchedule) -> Program:
    """flush and publish: as :func:`window`, with the layers in front of the batch rows."""
    geo = Geometry(spec, schedule)

    @T.macro
    def body(a: Any) -> None:
        with T.Kernel(a.Y * a.B * a.HV * geo.blocks, threads=schedule.threads) as block:
            T.annotate_min_blocks_per_sm(schedule.ctas_per_sm)
            assume_strides(spec, a)
            cell = place(geo, a, block, T.get_thread_binding(0))
            slot, slot_rest = common.index_words(a.slots, cell.b)
            ring, ring_rest = common.index_words(a.rings, cell.b)
            column = column_of(a, slot)
            count, base, kv_only = a.cursors[COUNT, column], a.cursors[BASE, column], a.cursors[KV_ONLY, column]
            if tvm.tirx.all(common.in_range(slot, slot_rest, a.P), common.in_range(ring, ring_rest, a.N)):
                row = dataclasses.replace(cell, slot=slot, ring=ring, count=count, base=base, kv_only=kv_only)
                if spec.form == "publish":
                    publish_slot(row)
                else:
                    if count > 0:
                        walk(row, row, 0, True, fold_slot)
            else:
                if first_thread(cell):
                    report_row(cell)

    return Program(common.build(spec, body), f"Y * B * HV * {geo.blocks}")


def column_of(a: Any, slot: Any) -> Any:
    """A column of the cursors for any ``slot``: they are on their way before the slot is judged."""
    return T.max(T.min(slot, a.P), 0)


def place(geo: Geometry, a: Any, block: Any, thread: Any) -> Cell:
    """The cell of a block, with its shared memory."""
    heads = T.truncdiv(block, geo.blocks)
    row, hv = T.truncdiv(heads, a.HV), T.truncmod(heads, a.HV)
    layers = FORMS[geo.spec.form].layered
    lead, b = ((T.truncdiv(row, a.B),), T.truncmod(row, a.B)) if layers else ((), row)
    shared = {name: T.alloc_shared(shape, geo.shared_dtype(name)) for name, shape in geo.shared().items()}
    return Cell(geo, a, lead, b, hv, T.truncmod(block, geo.blocks), thread, shared)


def assume_strides(spec: KernelSpec, a: Any) -> None:
    """What the host checks of the free strides. Not a macro, which would give the facts names and so hide them from
    TileLang."""
    for fact in common.assumptions(spec, a):
        T.evaluate(T.assume(fact))


def first_thread(cell: Cell) -> Any:
    """The one thread of a row that reports."""
    layer = [cell.lead[0] == 0] if cell.lead else []
    return tvm.tirx.all(*layer, cell.hv == 0, cell.tile == 0, cell.thread == 0)


@T.macro
def leave_row(cell: Cell) -> None:
    """A row without tokens: zeros, and a report where its slot, ring or length does not exist. Reads all again: a
    window that kept their high words until here would have no registers for them."""
    write_all_zeros(cell)
    if first_thread(cell):
        report_row(cell)


@T.macro
def report_row(cell: Cell) -> None:
    """What the row's first thread reports of a row that is left alone."""
    cursors = cell.args.cursors
    slot, slot_rest = common.index_words(cell.args.slots, cell.b)
    ring, ring_rest = common.index_words(cell.args.rings, cell.b)
    if common.in_range(slot, slot_rest, cell.args.P):
        if common.in_range(ring, ring_rest, cell.args.N):
            if cell.spec.form == "verify":
                cursors[WINDOW, slot] = 0
                length, rest = common.index_words(cell.args.lengths, cell.b)
                if tvm.tirx.Not(common.in_range(length, rest, cell.spec.window + 1)):
                    cursors[FAULT, slot] = T.bitwise_or(cursors[FAULT, slot], FAULT_LENGTH)
        else:
            if cell.spec.form != "publish":  # after which no cursors move
                cursors[WINDOW, slot] = SKIPPED
            common.report_index(cell.args, ring, ring_rest)
    else:
        common.report_index(cell.args, slot, slot_rest)


@T.macro
def publish_slot(cell: Cell) -> None:
    """The row's second slot: its folded state, and cursors of an ordinary row without records."""
    cursors = cell.args.cursors
    dst, rest = common.index_words(cell.args.dst, cell.b)
    if tvm.tirx.all(common.in_range(dst, rest, cell.args.P), dst != cell.slot):
        if cell.count > 0:
            walk(cell, dataclasses.replace(cell, slot=dst, origin=cell.slot), 0, True, fold_slot)
        else:
            walk(cell, dataclasses.replace(cell, slot=dst, origin=cell.slot), 0, True, copy_slot)
        if first_thread(cell):
            for i in [*range(FAULT), *([WRITES] if cell.spec.stochastic else [])]:
                cursors[i, dst] = 0
    else:
        if tvm.tirx.all(first_thread(cell), tvm.tirx.Not(common.is_padding(dst, rest))):
            cursors[FAULT, cell.slot] = T.bitwise_or(cursors[FAULT, cell.slot], FAULT_TARGET)


@T.macro
def copy_slot(cell: Cell, target: Cell) -> None:
    state = T.alloc_local((cell.geo.rows * cell.geo.columns,), F32)
    load_state(cell, state)
    store_state(target, state, True)


@T.macro
def fold_slot(cell: Cell, target: Cell) -> None:
    """``target``: the row that the state is written to."""
    state = T.alloc_local((cell.geo.rows * cell.geo.columns,), F32)
    fold_pending(cell, ring_registers(cell), state)
    store_state(target, state, True)


@T.macro
def report_tree(cell: Cell, wrong: Any) -> None:
    if wrong:
        cursors = cell.args.cursors
        cursors[FAULT, cell.slot] = T.bitwise_or(cursors[FAULT, cell.slot], FAULT_PARENT)


@T.macro
def run_tree(cell: Cell) -> None:
    """Length and parents of a window of nodes, then its nodes."""
    spec, cursors = cell.spec, cell.args.cursors
    length = T.alloc_local((1,), "int32")
    given, rest = common.index_words(cell.args.lengths, cell.b)
    length[0] = T.if_then_else(common.in_range(given, rest, spec.window + 1), given, 0)
    find_parents(cell, length)
    if first_thread(cell):
        if tvm.tirx.Not(common.in_range(given, rest, spec.window + 1)):
            cursors[FAULT, cell.slot] = T.bitwise_or(cursors[FAULT, cell.slot], FAULT_LENGTH)
        report_tree(cell, tvm.tirx.all(common.in_range(given, rest, spec.window + 1), given != length[0]))
        cursors[WINDOW, cell.slot] = length[0]
    if length[0] > 0:
        run_slot(cell, length[0])
    else:
        write_all_zeros(cell)


@T.macro
def run_slot(cell: Cell, length: Any) -> None:
    """Capacity and fold of a row in the pool, then its tokens, of which there is at least one."""
    spec, cursors = cell.spec, cell.args.cursors
    if tvm.tirx.all(spec.form == "verify" and not spec.tree, first_thread(cell)):
        cursors[WINDOW, cell.slot] = length
    if cell.geo.schedule.apart:
        run_apart(cell, length)
    else:
        capacity = T.Select(cell.kv_only != 0, spec.kv_only, spec.buffer)
        run_tokens(cell, length, folds_before(cell, length, capacity))


def folds_before(cell: Cell, length: Any, capacity: Any) -> Any:
    """Whether a row folds before it takes ``length`` tokens."""
    full = T.bool(True) if FORMS[cell.spec.form].folds == "pending" else cell.count + length > capacity
    return tvm.tirx.all(cell.count > 0, full)


@T.macro
def run_tokens(cell: Cell, length: Any, folds: Any) -> None:
    rounds = True if FORMS[cell.spec.form].writes_state else folds
    walk(cell, cell, T.Select(folds, 0, 1), rounds, tokens_of(length, folds))


@T.macro
def run_apart(cell: Cell, length: Any) -> None:
    """The tokens of a row, one without a checkpoint by code of its own."""
    if FORMS[cell.spec.form].folds == "full":
        if cell.kv_only != 0:  # no branch beside the ordinary rows' has code like theirs, which nvcc would share
            if folds_before(cell, length, cell.spec.kv_only):
                fold_first(cell, length)
            else:
                run_alone(cell, length)
        else:
            run_ordinary(cell, length)
    else:
        if tvm.tirx.all(cell.kv_only != 0, cell.count > 0):
            fold_first(cell, length)
        else:
            run_ordinary(cell, length)


@T.macro
def run_alone(cell: Cell, length: Any) -> None:
    """A row without a checkpoint, that does not fold, by the blocks that serve it."""
    a = Alone(cell.spec, cell.geo.schedule)
    if tvm.tirx.all(cell.tile < a.V // a.span, cell.hv % a.heads == 0):
        row = with_arrays(cell, a)
        run_records(dataclasses.replace(row, geo=cell.geo.ordinary), AloneCell.of(row, a), length)


@T.macro
def fold_first(cell: Cell, length: Any) -> None:
    """A full row without a checkpoint does as flush does and goes on as an ordinary one without records."""
    full = with_fold_arrays(cell)
    fold_slot(full, full)
    T.sync_threads()  # what a thread wrote of the state another may read
    base = common.record_row(cell.base, cell.count, cell.args.R)
    run_ordinary(dataclasses.replace(cell, count=T.int32(0), base=base, kv_only=T.int32(0)), length)


@T.macro
def run_ordinary(cell: Cell, length: Any) -> None:
    row = dataclasses.replace(cell, geo=cell.geo.ordinary, again=True)
    run_tokens(row, length, folds_before(row, length, cell.spec.buffer))


def tokens_of(length: Any, folds: Any) -> Any:
    def run(cell: Cell, target: Cell) -> None:
        g = cell.geo
        by_channel = walk_row if g.T == 1 else walk_tokens
        products = run_scaled if g.spec.scaled else run_window
        run = products if g.schedule.mma else replay_row if g.replays else by_channel if g.by_channel else run_row
        run(cell, length, folds)

    return run


@T.macro
def walk(cell: Cell, target: Cell, first: Any, rounds: Any, run: Any) -> None:
    """``run(cell, target)`` for the block's one tile, or as :func:`sweep` does."""
    if cell.geo.sweeps > 1:
        sweep(cell, target, first, rounds, run)
    else:
        run(cell, target)


@T.macro
def write_all_zeros(cell: Cell) -> None:
    if cell.geo.sweeps > 1:
        for tile in T.serial(cell.geo.sweeps):
            write_zeros(dataclasses.replace(cell, tile=tile))
    else:
        write_zeros(cell)
