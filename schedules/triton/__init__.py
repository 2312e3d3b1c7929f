"""Portable GPU kernels as Triton source: a second, simple schedule of the same form programs.

``source(spec)`` is the text of a Python file with the kernels of all four forms of a recurrence, or of advance and
commit. Nothing here imports triton.
"""

from __future__ import annotations

import json
from dataclasses import replace

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.portable import PORTABLE_FORMS, source_name
from kvbuffer_codegen.schedules.triton import cursors
from kvbuffer_codegen.schedules.triton.kernels import Kernel
from kvbuffer_codegen.schedules.triton.text import FUNCTIONS, INDEX

__all__ = ["MADE_OF", "source"]

#: Begins the last line of a file, before the normal form of its recurrence as JSON.
MADE_OF = "# made of: "
HEADER = '''\
"""{what}, emitted from the recurrence; edits are lost.

Written by kvbuffer_codegen.schedules.triton.{record}
"""

import triton
import triton.language as tl


'''


def source(spec: KernelSpec) -> str:
    """The text of the file called ``ir.portable.source_name(spec)``. Raises ``ValueError`` where there is none."""
    source_name(spec)
    if spec.recurrence is None:
        what, record, parts = "advance and commit", "", [INDEX, cursors.kernels()]
    else:
        what = f"{spec.recurrence.name}: step, decode, flush and verify of any size"
        fields = ", ".join(f"{f.name} ({f.dtype})" for f in spec.record_layout.fields)
        record = f" A record: {fields}."
        forms = [replace(spec, form=form, window=int(form == "verify")) for form in PORTABLE_FORMS]
        parts = [INDEX, FUNCTIONS, *(Kernel(s).text() for s in forms)]
    made_of = json.dumps(spec.recurrence and spec.recurrence.to_dict(), sort_keys=True)
    return HEADER.format(what=what, record=record) + "\n\n".join([*parts, f"{MADE_OF}{made_of}\n"])
