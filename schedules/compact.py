"""A tree's accepted records moved together behind the committed ones, all layers in one launch."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.forms import KernelSpec, most_accepted
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.ir.signature import BASE, COUNT, WINDOW
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules.cursors import check_path
from kvbuffer_codegen.schedules.space import CpuSchedule, TargetLike
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def cpu(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """A cell takes a layer, a batch row and a value head."""

    @T.macro
    def body(arguments: Any) -> None:
        with T.Kernel(1):
            move_row(spec, arguments, arguments.cell, 0, 1)

    return Program(common.build(spec, body, scalars=("cell",)), "Y * B * HV")


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    """A block takes what a cell does; a thread moves the same channels of every record."""

    @T.macro
    def body(a: Any) -> None:
        with T.Kernel(layers(spec, a) * a.B * heads(spec, a), threads=schedule.threads) as block:
            move_row(spec, a, block, T.get_thread_binding(0), schedule.threads)

    return Program(common.build(spec, body), "Y * B * HV")


def first_field(spec: KernelSpec, a: Any) -> Any:
    return getattr(a, spec.record_layout.fields[0].name)


def layers(spec: KernelSpec, a: Any) -> Any:
    return first_field(spec, a).shape[0]


def heads(spec: KernelSpec, a: Any) -> Any:
    """Value heads: no argument need have them in its shape."""
    keys = spec.record_layout.fields[0].heads == "key"
    return first_field(spec, a).shape[3] * (spec.ratio if keys else 1)


@T.macro
def move_row(spec: Any, a: Any, cell: Any, thread: Any, threads: int) -> None:
    """One head's share of a row's records. A record moves to where an earlier or the same one was, in order, and a
    thread moves the same channels of all: nothing is overwritten before it is read."""
    hv = T.truncmod(cell, heads(spec, a))
    row = T.truncmod(T.truncdiv(cell, heads(spec, a)), a.B)
    layer = T.truncdiv(T.truncdiv(cell, heads(spec, a)), a.B)
    slot, slot_rest = common.index_words(a.slots, row)
    ring, ring_rest = common.index_words(a.rings, row)
    count = T.alloc_local((1,), "int32")
    good = T.alloc_local((1,), "int32")
    before = T.alloc_local((1,), "int32")
    count[0] = 0
    if tvm.tirx.all(
        common.in_range(slot, slot_rest, a.P), common.in_range(ring, ring_rest, first_field(spec, a).shape[1])
    ):
        value, rest = common.index_words(a.accepted, row)
        if common.in_range(value, rest, a.cursors[WINDOW, slot] + 1):
            most = most_accepted(spec.buffer, spec.kv_only)
            check_path(a, row, a.cursors[WINDOW, slot], value, most, good, before)
            count[0] = T.Select(good[0] == 1, value, 0)
        first = a.cursors[COUNT, slot]
        base = a.cursors[BASE, slot]
        for i in T.serial(count[0]):
            node = common.index_words(a.path, row, i)[0]
            for f in spec.record_layout.fields:
                move_field(spec, a, f, (layer, ring, base, hv), first + i, first + node, thread, threads)


@T.macro
def move_field(spec: Any, a: Any, f: Field, where: Any, target: Any, source: Any, thread: Any, threads: int) -> None:
    layer, ring, base, hv = where
    tensor = getattr(a, f.name)
    head = T.truncdiv(hv, spec.ratio) if f.heads == "key" else hv
    mine = T.truncmod(hv, spec.ratio) == 0 if f.heads == "key" else T.bool(True)
    to = (layer, ring, common.record_row(base, target, a.R), head)
    start = (layer, ring, common.record_row(base, source, a.R), head)
    if mine:
        if f.axis is None:
            if thread == 0:
                tensor[to] = tensor[start]
        else:
            width = spec.extent(f.axis)
            for q in T.serial(-(-width // threads)):
                if q * threads + thread < width:
                    tensor[(*to, q * threads + thread)] = tensor[(*start, q * threads + thread)]
