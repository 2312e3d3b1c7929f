"""Lowering passes for CUDA kernels. :func:`narrow_indices`: of 64-bit addresses, what lies inside one slot or
batch is worked out in 32 bits. :func:`order_parameters`: what is needed first comes first.

Indices arrive as sums of products with 64-bit strides, some hundred instructions a thread. The runtime refuses tensors
whose slots or batches do not fit 32 bits (:func:`kvbuffer_codegen.ir.signature.inner_axes`), so that only the products
with the strides of a slot, a ring or a layer need 64.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tilelang import tvm

tirx = tvm.tirx
_READ_ONLY = "tl.readonly_param_indices"
_BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")


def narrow_indices(func: Any, wide: Collection[str]) -> Any:
    """``func`` with every index narrowed; ``wide``: names of the strides whose products stay 64-bit."""

    def rewrite(node: Any) -> Any:
        indices = [_narrow(index, wide) for index in node.indices]
        if isinstance(node, tirx.BufferLoad):
            return tirx.BufferLoad(node.buffer, indices)
        return tirx.BufferStore(node.buffer, node.value, indices)

    body = tirx.stmt_functor.ir_transform(func.body, None, rewrite, ["tirx.BufferLoad", "tirx.BufferStore"])
    return func.with_body(body)


def order_parameters(func: Any, order: Sequence[int]) -> Any:
    """``func`` with its parameters in another order. A block meets parameters line by line, 64 bytes and some hundred
    cycles each, before it can ask for anything."""
    attrs = dict(func.attrs.items())
    if _READ_ONLY in attrs:
        before = {int(i) for i in attrs[_READ_ONLY]}
        attrs[_READ_ONLY] = [now for now, i in enumerate(order) if i in before]
    made = tirx.PrimFunc([func.params[i] for i in order], func.body, func.ret_type, func.buffer_map)
    return made.with_attr(attrs)


def _narrow(index: Any, wide: Collection[str]) -> Any:
    if isinstance(index, tirx.Ramp):
        return tirx.Ramp(_narrow(index.base, wide), 1, index.lanes) if _is_one(index.stride) else index
    if str(index.dtype) != "int64":
        return index
    outer: list[Any] = []
    inner: list[Any] = []
    for term in _terms(index):
        if _is_row(term):
            outer.append(_product(term))
        else:
            (outer if _names(term) & set(wide) else inner).append(term)
    result = None
    if inner:
        total = _in_32_bits(inner[0])
        for term in inner[1:]:
            total = total + _in_32_bits(term)
        # A cast of TIR's own would be pushed into the sum again, term by term.
        result = tirx.call_pure_extern("int64", "int64_t", total)
    for term in outer:
        result = term if result is None else result + term
    return result


def _is_row(term: Any) -> bool:
    """An unsigned number, as that of a ring's row, times a stride: what else the address has is the same for many."""
    return isinstance(term, tirx.Mul) and isinstance(term.a, tirx.Cast) and str(term.a.value.dtype) == "uint32"


def _product(term: Any) -> Any:
    """Such a term in one instruction, of two 32-bit numbers, with the sum that it is added to."""
    factors = (tirx.call_pure_extern("int64", "int64_t", x) for x in (term.a.value, tirx.Cast("uint32", term.b)))
    return tirx.Mul(*factors)


def _is_one(stride: Any) -> bool:
    return isinstance(stride, tirx.IntImm) and int(stride) == 1


def _terms(index: Any) -> list[Any]:
    return [*_terms(index.a), *_terms(index.b)] if isinstance(index, tirx.Add) else [index]


def _names(term: Any) -> set[str]:
    found: set[str] = set()
    tirx.stmt_functor.post_order_visit(term, lambda n: found.add(str(n.name)) if isinstance(n, tirx.Var) else None)
    return found


def _in_32_bits(value: Any) -> Any:
    """A 64-bit expression whose value fits 32 bits, as do those of its parts."""
    if isinstance(value, tirx.IntImm):
        return tirx.const(int(value), "int32")
    if isinstance(value, tirx.Cast) and str(value.value.dtype) == "int32":
        return value.value
    kind = type(value).__name__
    if kind in _BINARY:
        return getattr(tirx, kind)(_in_32_bits(value.a), _in_32_bits(value.b))
    if isinstance(value, tirx.Select):
        return tirx.Select(value.condition, _in_32_bits(value.true_value), _in_32_bits(value.false_value))
    if isinstance(value, tirx.Call) and str(value.op.name).split(".")[-1] in (
        "shift_left",
        "shift_right",
        "bitwise_and",
    ):
        return tirx.Call("int32", value.op, [_in_32_bits(a) for a in value.args])
    return tirx.Cast("int32", value)
