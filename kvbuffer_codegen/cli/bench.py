"""``bench``: the kernels that the dispatcher would choose, over whole buffer cycles, beside a plain read of the same
bytes.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    Shape,
    add_kernel_arguments,
    numbers,
    one_line,
    positive,
    print_json,
    print_table,
    shape_of,
    specs_of,
    target_of,
)
from kvbuffer_codegen.ir.forms import KernelSpec

HELP = "time decode, step and verify over whole buffer cycles beside a plain read of the same bytes"
FORMS = ("decode", "step", "verify", "flush")
COLUMNS = (
    "form",
    "buffer",
    "window",
    "batch",
    "heads",
    "us",
    "us/token",
    "GB/s",
    "read",
    "of read",
    "floor us",
    "kernel",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser, FORMS, FORMS[:3])
    parser.add_argument("--batch", type=numbers, default=(4,), help="batch sizes, as 1,4,16 (default 4)")
    parser.add_argument(
        "--repeats", type=positive, default=7, help="passes over the cycle; the median counts (default 7)"
    )


def run(args: argparse.Namespace) -> int:
    import torch

    shape = shape_of(args, args.recurrence)
    specs = specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    device = torch.device(target_of(args.target).kind)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CommandError("--target: no CUDA device is here; accepted: cpu", FAILED)
    kernels = [(spec, *_kernel(spec, shape, device, max(args.batch))) for spec in specs]
    rows = [_bench(k, shape, batch, device, args.repeats) for k in kernels for batch in args.batch]
    if args.json:
        print_json({"rows": rows})
    else:
        print_table([{**r, "of read": f"{r['of read']:.0%}"} for r in rows], COLUMNS)
    return DONE


def _kernel(spec: KernelSpec, shape: Shape, device: Any, batch: int) -> tuple[Any, str]:
    """The kernel that serves ``spec``, and its folder's name. Raises :class:`CommandError` where there is none."""
    from kvbuffer_codegen.runtime import dispatcher
    from kvbuffer_codegen.runtime.loader import load_artifact
    from kvbuffer_codegen.runtime.policy import PolicyError

    try:
        artifact = dispatcher.find(
            device=device,
            batch=batch,
            form=spec.form,
            recurrence=spec.recurrence,
            heads=(shape.H, shape.HV),
            dims=(spec.K, spec.V),
            io=spec.io,
            state=spec.state,
            buffer=spec.buffer,
            window=spec.window,
            kv_only=spec.kv_only,
            layout=spec.layout,
            records=spec.records,
            rounding=spec.rounding,
        )
    except (dispatcher.MissingKernelError, PolicyError) as error:
        raise CommandError(one_line(error), FAILED) from None
    return load_artifact(artifact, device), artifact.folder.name


def _bench(kernel: tuple[KernelSpec, Any, str], shape: Shape, batch: int, device: Any, repeats: int) -> dict[str, Any]:
    from kvbuffer_codegen.autotune.workload import accepted, make_workload, read_bandwidth, timer

    spec, call, name = kernel
    workload = make_workload(spec, shape.recurrence, batch, shape.H, device)
    clock = timer(call, workload, workload.phases, device)
    passes, reads = [], []
    for _ in range(repeats):  # in turns, so that both meet the same machine
        passes.append(clock.once())
        reads.append(read_bandwidth(device, workload.pool))
    us, read = statistics.median(passes), statistics.median(reads)
    tokens = accepted(spec.window) if spec.form == "verify" else spec.tokens
    floor = workload.bytes / read * 1e6
    return {
        "form": spec.form,
        "buffer": spec.buffer,
        "window": spec.window,
        "batch": batch,
        "heads": f"{shape.H}/{shape.HV}",
        "us": us,
        "us/token": us / (tokens * batch) if tokens else None,
        "GB/s": workload.bytes / us / 1e3,
        "of read": floor / us,
        "floor us": floor,
        "read": read / 1e9,
        "bytes": workload.bytes,
        "kernel": name,
    }
