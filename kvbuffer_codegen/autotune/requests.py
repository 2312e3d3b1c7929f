"""What is asked of the tuner: kernels, and the sizes that each is timed at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvbuffer_codegen.ir.forms import KernelSpec

#: Timings at a size beside one of each candidate; candidates of a search that tries all.
FINALS, MANY = 25, 200


@dataclass(frozen=True)
class Point:
    """A size: ``rows`` batch rows of ``H`` key heads."""

    rows: int
    H: int

    def heads(self, spec: KernelSpec) -> int:
        """Value-head rows, which choices are keyed by."""
        return self.rows * self.H * spec.ratio

    def timed(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of the log was timed at this size."""
        return (line["rows"], line["H"]) == (self.rows, self.H)


def points_of(heads: Sequence[tuple[int, int]], batches: Sequence[int]) -> list[Point]:
    """Every size; heads of one ratio share their kernels. Raises ``ValueError`` where they have several."""
    if len({HV / H for H, HV in heads}) != 1 or heads[0][1] % heads[0][0]:
        raise ValueError(f"heads={list(heads)}: accepted: pairs (H, HV) with one whole ratio HV / H")
    return [Point(batch, H) for H, _ in heads for batch in batches]


@dataclass(frozen=True)
class Request:
    """One search. ``limit``: at most so many candidates (None: all). ``source``: where the recurrence comes from, a
    shipped name or ``path.py:function``; empty: its normal form is all there is.
    """

    spec: KernelSpec
    points: tuple[Point, ...]
    limit: int | None = None
    source: str = ""

    @property
    def rows(self) -> list[int]:
        """Value-head rows of every size."""
        return [p.heads(self.spec) for p in self.points]

    @property
    def work(self) -> int:
        """What it takes beside other requests: timings, the final rounds of the last few among them."""
        return len(self.points) * (FINALS + (self.limit or MANY))


def joined(requests: Iterable[Request]) -> list[Request]:
    """One request a kernel, in the order of the first: at all its sizes, with the most candidates asked for."""
    found: dict[KernelSpec, Request] = {}
    for request in requests:
        known = found.setdefault(request.spec, request)
        points = tuple(dict.fromkeys([*known.points, *request.points]))
        limits = (known.limit, request.limit)
        most = None if None in limits else max(limit for limit in limits if limit is not None)
        found[request.spec] = replace(known, points=points, limit=most, source=known.source or request.source)
    return list(found.values())
