"""What ``check`` says of one kernel."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, WRONG, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Verdict:
    """``error``: the largest relative error of any tensor."""

    name: str
    where: str
    status: str
    reason: str = ""
    target: str = ""
    error: float | None = None
    seconds: float = 0.0
