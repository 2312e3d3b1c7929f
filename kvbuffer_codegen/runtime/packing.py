"""A plan as 64-bit integers, in the order in which `launcher.cpp` reads them."""

from __future__ import annotations

import array

from kvbuffer_codegen.expressions import Program
from kvbuffer_codegen.runtime.plan import Plan, Scalar, Tensor

_DEVICE_TYPES = {"cpu": 1, "cuda": 2}  # DLPack's numbers, as those of dtypes: (code, bits); an index has 32 or 64 bits
_DTYPES = {"float32": (2, 32), "bfloat16": (4, 16), "float16": (2, 16), "int32": (0, 32), "index": (0, 0)}
_DTYPES |= {"int8": (0, 8), "float8_e4m3fn": (10, 8)}
_OPCODES = {"integer": 0, "name": 1, "+": 2, "-": 3, "*": 4, "//": 5, "max": 6, "min": 7}
_SLOTS = {"int32": 1, "int64": 2, "float32": 3}


def pack(plan: Plan) -> array.array[int]:
    """All of ``plan`` but its names: symbols and arguments become positions, programs pairs (operation, value)."""
    return array.array("q", _Packer(plan).code)


class _Packer:
    def __init__(self, plan: Plan) -> None:
        self.number = {name: i for i, name in enumerate(plan.symbols)}
        position = {argument.name: i for i, argument in enumerate(plan.arguments)}
        device = _DEVICE_TYPES[plan.device_type]
        self.code = [
            device,
            len(plan.symbols),
            self.number.get("B", -1),
            plan.shared,
            int(plan.overlap),
            *plan.grid_limits,
        ]
        self.code.append(len(plan.arguments))
        for argument in plan.arguments:
            if isinstance(argument, Scalar):
                self.code += [0, self.number[argument.name]]
            else:
                self.tensor(argument)
        self.code.append(len(plan.constraints))
        for program in (*(c.program for c in plan.constraints), *plan.grid, *plan.block):
            self.program(program)
        self.code.append(len(plan.slots))
        for kind, item in plan.slots:
            if isinstance(item, str):
                self.code += [0, position[item]]
            else:
                self.code.append(_SLOTS[kind])
                self.program(item)

    def tensor(self, tensor: Tensor) -> None:
        words = self.number.get(f"{tensor.name}_words", -1)
        written = 2 if tensor.role == "out" else int(tensor.written)
        self.code += [1, *_DTYPES[tensor.dtype], words, tensor.align, written, len(tensor.sizes)]
        for axis, size in enumerate(tensor.sizes):
            self.code += [self.number[size.symbol] if size.symbol else -1, size.offset]
            self.program(size.program)
            self.code.append(self.number[f"{tensor.name}_s{axis}"] if tensor.free[axis] else -1)

    def program(self, program: Program) -> None:
        self.code.append(len(program))
        for op, value in program:
            self.code += [_OPCODES[op], self.number[str(value)] if op == "name" else int(value)]
