"""Fixtures that several test files share."""

from __future__ import annotations

from runtime_kit import backend, one_thread

__all__ = ["backend", "one_thread"]
