"""Schedules: how a form is computed on a target, as frozen values, and the legal space of each target family.

A schedule changes the speed of a kernel and the order of its sums, never what it computes. No compiler is imported
here, so that listing candidates is cheap. A family adds itself by subclassing :class:`Schedule`;
``kvbuffer_codegen.schedules`` imports every family.
"""

from __future__ import annotations

import abc
import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, Self

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.philox import WORDS

CURSOR_FORMS = ("advance", "commit", "commit_path")


class TargetLike(Protocol):
    """What a schedule asks of a target: ``kind`` is ``"cpu"`` or ``"cuda"``."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True)
class Schedule(abc.ABC):
    """Base of all families. Subclasses are frozen dataclasses of ints, bools and strings with every field defaulted."""

    kind: ClassVar[str] = ""  #: the target kind this family serves
    families: ClassVar[dict[str, type[Schedule]]] = {}

    def __init_subclass__(cls) -> None:
        Schedule.families[cls.kind] = cls

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    @abc.abstractmethod
    def legal(cls, spec: KernelSpec, target: TargetLike) -> list[Self]:
        """Every candidate for ``spec`` on ``target``, the default among them, in a fixed order."""

    @classmethod
    @abc.abstractmethod
    def default(cls, spec: KernelSpec, target: TargetLike) -> Self:
        """The candidate that serves where nothing is tuned."""

    @classmethod
    def suggested(cls, spec: KernelSpec, target: TargetLike) -> list[Self]:
        """Legal ones worth a try before others."""
        return []

    @classmethod
    @abc.abstractmethod
    def space(cls) -> dict[str, Any]:
        """What :func:`space_hash` covers: a change of these values makes old tuning choices void."""


@dataclass(frozen=True)
class CpuSchedule(Schedule):
    """Lines of the state streamed once by one OpenMP cell: a batch row, a value head, a block of V.

    rows    lines of the state in flight at once (of V in layout VK, of K in KV); cursor forms: batch rows of a cell.
    lanes   independent float32 accumulators of a sum over K: gcc vectorises them without reordering a sum.
    splits  blocks that V is divided into: more, smaller cells for small batches.
    ahead   how far before its use the state, and with it the records, is asked for: as many bytes as that many lines of
            float32 have; 0: left to the hardware.
    """

    kind: ClassVar[str] = "cpu"
    choices: ClassVar[dict[str, tuple[int, ...]]] = {
        "rows_VK": (1, 2, 4, 8, 16),
        "rows_KV": (1, 2, 4),  # one after another in memory is what a prefetcher follows
        "lanes": (1, 2, 4, 8, 16),
        "splits": (1, 2),
        "ahead": (0, 16),
    }
    cursor_rows: ClassVar[tuple[int, ...]] = tuple(2**i for i in range(12))

    rows: int = 1
    lanes: int = 1
    splits: int = 1
    ahead: int = 0

    @classmethod
    def legal(cls, spec: KernelSpec, target: TargetLike) -> list[Self]:
        if spec.form in CURSOR_FORMS:
            return [cls(rows=rows) for rows in cls.cursor_rows]
        if spec.form == "compact":  # moves records as they lie
            return [cls()]
        lanes = [n for n in cls.choices["lanes"] if spec.K % n == 0][-2:]
        lines = spec.V if spec.layout == "VK" else spec.K
        rows = [n for n in cls.choices[f"rows_{spec.layout}"] if lines % n == 0][-3:]
        made = (cls(*values) for values in itertools.product(rows, lanes, cls.choices["splits"], cls.choices["ahead"]))
        return [s for s in made if s.fits(spec)]

    @classmethod
    def default(cls, spec: KernelSpec, target: TargetLike) -> Self:
        if spec.form in CURSOR_FORMS:
            return cls(rows=64)
        if spec.form == "compact":
            return cls()
        rows = 8 if spec.layout == "VK" else 1
        return max(cls.legal(spec, target), key=lambda s: (s.lanes, s.splits == 1, -abs(s.rows - rows), s.ahead))

    @classmethod
    def space(cls) -> dict[str, Any]:
        return {**cls.choices, "cursor_rows": cls.cursor_rows}

    def fits(self, spec: KernelSpec) -> bool:
        """Whether the fields divide what they split."""
        if spec.V % self.splits or spec.K % self.lanes:
            return False
        if spec.scaled and self.splits > 1:  # a channel's scale is a maximum over all of V
            return False
        if spec.stochastic and spec.layout == "KV" and self.splits > 1 and spec.V // self.splits % WORDS:
            return False  # random numbers come in blocks of neighbours
        streamed = spec.V // self.splits if spec.layout == "VK" else spec.K
        return streamed % self.rows == 0


def legal(spec: KernelSpec, target: TargetLike) -> list[Schedule]:
    """Every legal candidate for ``spec`` on ``target``; raises ``ValueError`` for a target kind without schedules."""
    return list(_family(target.kind).legal(spec, target))


def default(spec: KernelSpec, target: TargetLike) -> Schedule:
    """The schedule that serves until a tuned one is there; raises ``ValueError`` as :func:`legal` does."""
    return _family(target.kind).default(spec, target)


def suggested(spec: KernelSpec, target: TargetLike) -> list[Schedule]:
    """Legal schedules of shapes that were fast before, on whatever was measured, best guess first."""
    return _family(target.kind).suggested(spec, target)


def schedule_from_dict(values: Mapping[str, Any]) -> Schedule:
    """The inverse of ``Schedule.to_dict``; raises ``ValueError`` naming fields missing, unknown or ill-typed."""
    given = dict(values)
    family = _family(given.pop("kind", None))
    known = {f.name: type(f.default) for f in fields(family)}
    if given.keys() != known.keys():
        wrong = sorted(given.keys() ^ known.keys())
        accepted = ", ".join(sorted(known))
        raise ValueError(f"schedule: fields {wrong} are missing or unknown; a {family.kind} schedule has {accepted}")
    for name, value in given.items():
        if type(value) is not known[name]:
            raise ValueError(f"schedule: {name} = {value!r} is not of type {known[name].__name__}")
    return family(**given)


def space_hash() -> str:
    """Twelve hex digits over the candidate values of every family: part of the key of a tuning choice."""
    spaces = {kind: family.space() for kind, family in sorted(Schedule.families.items())}
    return hashlib.sha256(json.dumps(spaces, sort_keys=True).encode()).hexdigest()[:12]


def _family(kind: Any) -> type[Schedule]:
    if kind not in Schedule.families:
        raise ValueError(f"target kind {kind!r} has no schedules; accepted: {', '.join(sorted(Schedule.families))}")
    return Schedule.families[kind]
