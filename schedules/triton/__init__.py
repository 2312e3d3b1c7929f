"""Portable GPU kernels as Triton source: a second, simple schedule of the same form programs.

``source(spec)`` is the text of a Python file with the kernels of all four forms. Nothing here imports triton.
"""

from __future__ import annotations

from kvbuffer_codegen.schedules.triton.kernels import MADE_OF, source

__all__ = ["MADE_OF", "source"]
