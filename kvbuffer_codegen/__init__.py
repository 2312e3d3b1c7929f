"""A compiler from linear recurrences to buffered decode and verify kernels, and the runtime that loads them."""

from __future__ import annotations

__version__ = "0.1.0"
