"""A TileLang program to device source and the facts of its launch. Nothing is compiled here and no device is needed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tilelang import tvm
from tilelang.backend.module import create_backend_context
from tilelang.engine.lower import device_codegen_without_compile, lower_to_host_device_ir

from kvbuffer_codegen.compiler.cpu_source import cpu_source
from kvbuffer_codegen.compiler.narrow import narrow_indices, order_parameters
from kvbuffer_codegen.compiler.overlap import overlapped
from kvbuffer_codegen.schedules.targets import Target

tirx, post_order_visit = tvm.tirx, tvm.tirx.stmt_functor.post_order_visit
logging.getLogger("tilelang").setLevel(logging.WARNING)

#: How TileLang lowers, per kind of target. (It reads loops in textual order when it warns of buffers without a value.)
PASSES: dict[str, dict[str, bool]] = {
    # Its vector structs lack casts and shifts, and g++ vectorises plain loops itself. Its bounds guards would stand
    # inside those loops: a CPU program keeps every index in range by its own conditions.
    "cpu": {
        "tirx.disable_vectorize": True,
        "tl.disable_safe_memory_legalize": True,
        "tl.disable_buffer_init_check": True,
    },
    # Warp-specialised pipelines have compiled clean and computed wrong numbers; tensor maps would have to be encoded
    # by the launchers.
    "cuda": {
        "tl.disable_warp_specialized": True,
        "tl.disable_tma_lower": True,
        "tl.disable_safe_memory_legalize": True,  # as on a CPU; its guards would also cost every 16-byte access
        # The templates hold every barrier themselves; TileLang's own would also stand where not all threads come by.
        "tl.disable_thread_storage_sync": True,
        "tl.disable_buffer_init_check": True,
    },
}

#: Passes with nothing to do: no template counts an index from the end. This one takes half of the time of a lowering.
SKIPPED = ("tl.LegalizeNegativeIndex",)
_NEGATIVE = re.compile(r"\[\(?-[1-9]")


@tvm.ir.instrument.pass_instrument
class _Skip:
    def should_run(self, module: Any, info: Any) -> bool:
        return info.name not in SKIPPED


class LoweringError(ValueError):
    """A program that cannot become a kernel, or would become a wrong one."""


@dataclass(frozen=True)
class Lowered:
    """Device source and its launch.

    grid       extents along x, y, z, integers or expressions over run-time sizes; on a CPU (cells, 1, 1)
    block      threads of a block along x, y, z
    shared     bytes of dynamic shared memory
    overlap    whether it may be started while the kernel before it finishes
    arguments  what the device function takes, in order: {"pointer": tensor}, or {"integer": expression, "dtype": of
               "int32" "int64" "float32"}
    """

    source: str
    entry: str
    grid: tuple[str | int, str | int, str | int]
    block: tuple[int, int, int]
    shared: int
    arguments: tuple[dict[str, str], ...]
    overlap: bool = False

    @property
    def launch(self) -> dict[str, Any]:
        """How it is launched, as a manifest says it."""
        return {
            "entry": self.entry,
            "grid": list(self.grid),
            "block": list(self.block),
            "shared": self.shared,
            "arguments": list(self.arguments),
            **({"overlap": True} if self.overlap else {}),
        }


@dataclass(frozen=True)
class _Device:
    """TileLang's own lowering of a program with one launch: the device function, and what the host passes to it."""

    module: Any
    name: str
    func: Any
    passed: tuple[Any, ...]
    attrs: dict[str, Any]
    context: Any


def lower(
    func: Any,
    target: Target,
    *,
    name: str | None = None,
    cells: str | None = None,
    wide: Collection[str] | None = None,
    rank: Callable[[str], int] | None = None,
) -> Lowered:
    """Lower a TileLang prim_func with one ``T.Kernel``.

    ``name`` becomes the entry of the binary (default: the function's own name). On a CPU the function computes one
    grid cell (``T.Kernel(1)``, an int32 parameter ``cell``) and ``cells`` says how many there are. ``wide``: names of
    the strides whose products need 64 bits (default: all). ``rank``: by which the device function's parameters are
    ordered. Raises :class:`LoweringError`.
    """
    device = _device(func, target, wide, rank)
    name = name or str(func.attrs["global_symbol"])
    emitted = device_codegen_without_compile(device.module, device.context).inspect_source()
    if _NEGATIVE.search(emitted):
        raise LoweringError(f"{device.name}: an index is negative; accepted: those from the beginning")
    arguments = tuple(_argument(p, value) for p, value in zip(device.func.params, device.passed, strict=True))
    if target.kind == "cpu":
        return _cpu(emitted, device.name, name, cells, arguments)
    shared = int(device.attrs.get("dyn_shared_memory_buf", 0))
    if shared > target.shared_limit:
        raise LoweringError(
            f"{name}: {shared} bytes of shared memory; {target.name} has {target.shared_limit} for a block"
        )
    extents = {str(tag): extent for tag, extent in device.attrs["thread_extent"].items()}
    return Lowered(
        source=re.sub(rf"\b{re.escape(device.name)}\b", name, emitted),
        entry=name,
        grid=(_extent(extents, "x"), _extent(extents, "y"), _extent(extents, "z")),
        block=(int(extents["threadIdx.x"]), int(extents.get("threadIdx.y", 1)), int(extents.get("threadIdx.z", 1))),
        shared=shared,
        arguments=arguments,
        overlap=target.overlaps,
    )


def device_ir(
    func: Any, target: Target, wide: Collection[str] | None = None, rank: Callable[[str], int] | None = None
) -> str:
    """The lowered device function of ``func`` as TIR script."""
    return str(_device(func, target, wide, rank).module.script())


def rename(value: Any, name: str) -> None:
    """Call a TIR variable or buffer ``name``, in place; any other expression, such as ``HV // 2``, is left alone."""
    if isinstance(value, tirx.Var | tirx.Buffer):
        tvm.script.ir_builder.IRBuilder.name(name, value)


def _cpu(
    emitted: str, emitted_name: str, name: str, cells: str | None, arguments: tuple[dict[str, str], ...]
) -> Lowered:
    parameters = [
        ("pointer", "") if "pointer" in a else ("cell" if a["integer"] == "cell" else "integer", a["dtype"])
        for a in arguments
    ]
    if cells is None or ("cell", "int32") not in parameters:
        raise LoweringError(
            f"{name}: a CPU program takes an int32 parameter `cell` that it uses, and a count of cells; given: {cells}"
        )
    return Lowered(
        source=cpu_source(emitted, emitted_name, name, parameters),
        entry=name,
        grid=(cells, 1, 1),
        block=(1, 1, 1),
        shared=0,
        arguments=tuple(a for a in arguments if a.get("integer") != "cell"),
    )


def _device(
    func: Any, target: Target, wide: Collection[str] | None = None, rank: Callable[[str], int] | None = None
) -> _Device:
    on_cpu = target.kind == "cpu"
    # On a CPU, a host target unlike the device's makes the launch an external call: with equal ones TileLang looks for
    # a function of that name in the module and fails.
    context = (
        create_backend_context(tvm.target.Target("c"), {"kind": "c", "march": "host"}, "tvm_ffi")
        if on_cpu
        else create_backend_context(tvm.target.Target({"kind": "cuda", "arch": target.arch}), None, "tvm_ffi")
    )
    symbol = func.attrs["global_symbol"]
    try:
        options: dict[str, Any] = {"config": PASSES[target.kind], "instruments": [_Skip()]}
        with tvm.transform.PassContext(opt_level=3, **options), context.target:
            host, module, *_ = lower_to_host_device_ir(func, context)
            if on_cpu:
                module = tirx.transform.BF16StorageLegalize()(tirx.transform.FP8StorageLegalize()(module))
    except Exception as error:  # whatever TileLang's passes raise: their types are not part of its interface
        raise LoweringError(f"{symbol}: TileLang cannot lower this program for {target.name}: {error}") from error
    if on_cpu:
        module = tvm.IRModule({name: _repair_bfloat16(device) for name, device in module.functions.items()})
    if wide is not None:
        module = tvm.IRModule({name: narrow_indices(device, wide) for name, device in module.functions.items()})
    if len(module.functions) != 1 or len(host.functions) != 1:
        raise LoweringError(
            f"{symbol}: {len(module.functions)} launches in one program; exactly one T.Kernel is accepted"
        )
    ((variable, device),) = module.functions.items()
    ((_, host_func),) = host.functions.items()
    attrs = dict(device.attrs.items())
    _check_launch(symbol, attrs, dict(host_func.attrs.items()))
    passed = _passed(host_func, variable.name_hint)[: len(device.params)]
    if rank is not None:
        order = sorted(range(len(passed)), key=lambda i: rank(str(device.params[i].name)))
        device, passed = order_parameters(device, order), tuple(passed[i] for i in order)
        module = tvm.IRModule({variable: device})
    if target.overlaps:
        device = overlapped(device)
        module = tvm.IRModule({variable: device})
    return _Device(module, variable.name_hint, device, passed, attrs, context)


def _passed(host_func: Any, name: str) -> tuple[Any, ...]:
    """What the host passes to the device function called ``name``."""
    found: list[tuple[Any, ...]] = []

    def visit(node: Any) -> None:
        if (
            isinstance(node, tirx.Call)
            and node.args
            and isinstance(node.args[0], tirx.StringImm)
            and node.args[0].value == name
        ):
            found.append(tuple(node.args[1:]))

    post_order_visit(host_func.body, visit)
    if len(found) != 1:
        raise LoweringError(f"{name}: launched {len(found)} times; exactly one launch is accepted")
    return found[0]


def _check_launch(symbol: str, device: dict[str, Any], host: dict[str, Any]) -> None:
    if host.get("tma_descriptor_args"):
        raise LoweringError(f"{symbol}: uses TMA descriptors, which the launchers do not encode; copy without them")
    for attr in ("cluster_dims", "use_cooperative_groups", "has_cuda_pdl_sync"):
        if device.get(attr):
            raise LoweringError(f"{symbol}: launch attribute {attr} is not for programs to set; accepted: a plain grid")


def _repair_bfloat16(func: Any) -> Any:
    """Undoes TileLang's miscompile of a bfloat16 value cast to float32 and bound to a name.

    TileLang leaves such a cast alone while it turns bfloat16 tensors into tensors of their bits, so that 1.0 is read as
    16256.0. No tensor of a kernel holds 16-bit integers: a conversion from one to float32 is always this fault. The
    other way, which would have to round, is refused.
    """
    refused: list[Any] = []

    def widen(node: Any) -> Any:
        dtypes = (str(node.value.dtype), str(node.dtype))
        if dtypes == ("uint16", "float32"):
            return tirx.reinterpret(
                "float32", tirx.shift_left(tirx.Cast("uint32", node.value), tirx.const(16, "uint32"))
            )
        if "uint16" in dtypes and any(d.startswith("float") for d in dtypes):
            refused.append(node)
        return None

    body = tirx.stmt_functor.ir_transform(func.body, None, widen, ["tirx.Cast"])
    if refused:
        raise LoweringError(f"TileLang would convert `{refused[0]}` as an integer; cast by way of float32")
    return func.with_body(body)


def _argument(parameter: Any, value: Any) -> dict[str, str]:
    dtype = str(parameter.dtype)
    if dtype == "handle":
        return {"pointer": str(value.name)}
    if dtype not in ("int32", "int64", "float32"):
        raise LoweringError(f"argument {parameter.name} has dtype {dtype}; accepted: int32, int64, float32, tensors")
    return {"integer": expression(value), "dtype": dtype}


def _extent(extents: dict[str, Any], axis: str) -> str | int:
    text = expression(extents.get(f"blockIdx.{axis}", 1))
    return int(text) if text.isdigit() else text


#: Sizes and strides are never negative, so a division that truncates is one that rounds down.
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "Div": "//"}


def expression(value: Any) -> str:
    """A TIR integer as a launch expression (:mod:`kvbuffer_codegen.expressions`).

    Raises :class:`LoweringError` for what has none.
    """
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tirx.IntImm):
        return str(int(value))
    if isinstance(value, tirx.Var):
        return str(value.name)
    if isinstance(value, tirx.Cast):
        return expression(value.value)
    kind = type(value).__name__
    if kind in _SIGNS:
        return f"({expression(value.a)} {_SIGNS[kind]} {expression(value.b)})"
    if kind in ("Min", "Max"):
        return f"{kind.lower()}({expression(value.a)}, {expression(value.b)})"
    raise LoweringError(
        f"`{value}` ({kind}) has no launch expression; accepted are integers, sizes, strides, scalar arguments, "
        "+ - * //, min and max"
    )
