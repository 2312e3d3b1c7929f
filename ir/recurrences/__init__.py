"""The recurrences that ship: one short file each."""

from __future__ import annotations

from .gated_delta_rule import gated_delta_rule

RECURRENCES = {r.name: r for r in (gated_delta_rule,)}

__all__ = ["RECURRENCES", "gated_delta_rule"]
