"""A compiler from linear recurrences to buffered decode and verify kernels, and the runtime that loads them.

    from kvbuffer_codegen import Pool, load_kernel, dispatcher, recurrence

Each name is imported when it is first asked for: the command line and `ir` do not pay for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvbuffer_codegen.ir.language import recurrence
    from kvbuffer_codegen.runtime import Pool, dispatcher
    from kvbuffer_codegen.runtime.loader import load_kernel

__version__ = "0.1.0"
__all__ = ["Pool", "__version__", "dispatcher", "load_kernel", "recurrence"]

_HOMES = {
    "Pool": "kvbuffer_codegen.runtime.pool",
    "dispatcher": "kvbuffer_codegen.runtime",
    "load_kernel": "kvbuffer_codegen.runtime.loader",
    "recurrence": "kvbuffer_codegen.ir.language",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value
