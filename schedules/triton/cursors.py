"""The cursors of a token step: a program takes a row of the batch. What happens to it: docs/architecture.md."""

from __future__ import annotations

from kvbuffer_codegen.ir.forms import cursor_spec
from kvbuffer_codegen.ir.portable import CURSOR_FORMS, function_name, parameters
from kvbuffer_codegen.ir.signature import (
    ADVANCE_FORMS,
    BASE,
    COUNT,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_SLOT,
    KV_ONLY,
    SKIPPED,
    WINDOW,
)
from kvbuffer_codegen.schedules.triton.text import Lines

#: What a row without a slot reports, and the cursors of one that has a slot.
FIND = f"""\
row = tl.program_id(0).to(tl.int64)
slot, known, padding = index_of(slots_ptr, row * slots_s0, slots_words, P)
if not known:
    tl.store(cursors_ptr + {BASE} * cursors_s0 + P, slot, mask=padding == 0)
    tl.store(cursors_ptr + {FAULT} * cursors_s0 + P, {FAULT_SLOT}, mask=padding == 0)
    return
column = cursors_ptr + slot.to(tl.int64)
base = tl.load(column + {BASE} * cursors_s0)
n = tl.load(column + {COUNT} * cursors_s0)
marked = tl.load(column + {KV_ONLY} * cursors_s0)
window = tl.load(column + {WINDOW} * cursors_s0)
tl.store(column + {WINDOW} * cursors_s0, 0)
capacity = tl.where(marked != 0, kv_only, buffer)
"""
ADVANCE = f"""\
if window == {SKIPPED}:
    return
decoded = form == {ADVANCE_FORMS["decode"]}
folds = (n > 0) & ((decoded == 0) | (n + 1 > capacity))
added = tl.where(decoded, 1, 0)
marked = tl.where(form == {ADVANCE_FORMS["step"]}, 0, marked)
"""
COMMIT = f"""\
if window <= 0:
    return
accepted, good, _ = index_of(accepted_ptr, row * accepted_s0, accepted_words, window + 1)
faults = column + {FAULT} * cursors_s0
tl.store(faults, tl.load(faults) | {FAULT_ACCEPTED}, mask=good == 0)
folds = (n > 0) & (n + window > capacity)
added = tl.where(good, accepted, 0)
"""
MOVE = f"""\
tl.store(column + {BASE} * cursors_s0, tl.where(folds, (base + n) % ring, base))
tl.store(column + {COUNT} * cursors_s0, tl.where(folds, 0, n) + added)
tl.store(column + {KV_ONLY} * cursors_s0, tl.where(folds, 0, marked))
"""


def kernels() -> str:
    """The text of the kernels of advance and commit."""
    return "\n\n".join(_kernel(form, {"advance": ADVANCE, "commit": COMMIT}[form]) for form in CURSOR_FORMS)


def _kernel(form: str, outcome: str) -> str:
    lines, spec = Lines(), cursor_spec(form)
    lines.add("@triton.jit", f"def {function_name(spec)}(")
    lines.level = 1
    lines.add(*(f"{p.name}," for p in parameters(spec)))
    lines.level = 0
    lines.add("):")
    lines.level = 1
    lines.add(*(FIND + outcome + MOVE).splitlines())
    return str(lines)
