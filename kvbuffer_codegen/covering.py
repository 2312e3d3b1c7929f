"""Which kernels stand for all of them: sets of specs that cover the values of every factor, singly or in pairs.

A kernel is one level of each factor in :data:`FACTORS`. All combinations are some 10^9; two sets of them are built and
checked instead, both a deterministic function of the table below (a new level is one word there):

* :func:`fixed_set`: every single level, and every pair among :data:`CORE`; small enough to be built anywhere.
* :func:`pairwise_set`: every pair of levels of two factors (a covering array of strength 2, arXiv 1012.0353).

:func:`triples` adds random combinations of three levels, from a seed that is printed.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kvbuffer_codegen.ir.forms import DTYPES, FORMS, MOST_TOKENS, STATES, KernelSpec
from kvbuffer_codegen.ir.records import RECORDS
from kvbuffer_codegen.ir.recurrences import RECURRENCES

Level = str | int
Row = dict[str, Level]
Tuple = tuple[tuple[str, Level], ...]  #: levels that one row must hold together

WIDTHS = (16, 32, 64, 80, 96, 100, 128, 192, 256)
#: Every factor and its levels. L takes ends, powers of two and their neighbours, of its 64 values.
FACTORS: dict[str, tuple[Level, ...]] = {
    "recurrence": tuple(RECURRENCES),
    "form": (*(name for name, form in FORMS.items() if not form.cursors_only), "verify_tree"),
    "window": (*range(17), 24, 64),  # 0: the form has none; above 16: nodes of a tree
    "layout": ("VK", "KV"),
    "io": tuple(DTYPES),
    "state": tuple(STATES),
    "records": tuple(RECORDS),
    "K": WIDTHS,
    "V": WIDTHS,
    "ratio": (1, 2, 3, 4, 8),
    "buffer": (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64),
    "kv_only": (0, 3, 16, 64),
}
#: Factors whose pairs even the fixed set holds: what chooses between code paths, and not between sizes.
CORE = ("form", "layout", "io", "state", "records")
#: Windows that models are served with: in the fixed set they are in the default layout.
EVERYDAY: tuple[Tuple, ...] = tuple((("window", T), ("layout", "VK")) for T in (2, 4, 8))

#: A row that :func:`cost` puts below is as good as one that costs nothing.
CHEAP = 5.0
#: Numbers of one token's states (V x K for every value head of a key head): a check in float64 takes seconds.
MOST_STATE = 2**16

#: (factors, what must hold between their levels): combinations that no kernel has, or none that is checked here.
CONSTRAINTS: tuple[tuple[tuple[str, ...], Callable[..., bool]], ...] = (
    (("form", "window"), lambda form, window: FORMS[form_of(form)].window == (window > 0)),
    (("form", "window"), lambda form, window: window <= MOST_TOKENS or form == "verify_tree"),
    (("K", "V", "ratio"), lambda K, V, ratio: K * V * ratio <= MOST_STATE),
)


def spec_of(row: Mapping[str, Any]) -> KernelSpec:
    """The kernel that a row stands for."""
    values = {name: level for name, level in row.items() if name not in ("form", "recurrence")}
    values["tree"] = row["form"] == "verify_tree"
    return KernelSpec(form_of(row["form"]), RECURRENCES[row["recurrence"]].normal_form, **values)


def form_of(level: str) -> str:
    """The form of a level: trees are a level of their own, and a verify."""
    return "verify" if level == "verify_tree" else level


@functools.cache
def fixed_set() -> tuple[Row, ...]:
    """Rows that hold every level of every factor, every pair of levels of :data:`CORE`, and :data:`EVERYDAY`."""
    wanted = [*tuples(tuple(FACTORS), 1), *tuples(CORE, 2), *EVERYDAY]
    return tuple(covering(wanted))


@functools.cache
def pairwise_set() -> tuple[Row, ...]:
    """Rows that hold every pair of levels that some kernel has."""
    return tuple(covering(list(tuples(tuple(FACTORS), 2))))


def triples(count: int, seed: int) -> list[Row]:
    """``count`` rows around three random levels each that no row of :func:`pairwise_set` holds together."""
    rng = random.Random(seed)
    held = {t for row in pairwise_set() for t in itertools.combinations(row.items(), 3)}
    rows: list[Row] = []
    while len(rows) < count:
        factors = sorted(rng.sample(range(len(FACTORS)), 3))
        drawn = tuple((name, rng.choice(FACTORS[name])) for name in (list(FACTORS)[i] for i in factors))
        row = None if drawn in held else complete(dict(drawn), lambda row, name: rng.random())
        rows += [row] if row else []
    return rows


def tuples(factors: Sequence[str], strength: int) -> Iterable[Tuple]:
    """Every combination of levels of ``strength`` of the ``factors``, legal or not."""
    for names in itertools.combinations(factors, strength):
        for levels in itertools.product(*(FACTORS[name] for name in names)):
            yield tuple(zip(names, levels, strict=True))


def covering(wanted: Sequence[Tuple]) -> Iterable[Row]:
    """Rows until every legal tuple of ``wanted`` is in one: the dearest open tuple first, then factor by factor a level
    that closes open ones; of several a cheap one, and of those that cost about the same the one that closes most and
    makes most new pairs.
    """
    rest = dict.fromkeys(sorted(wanted, key=lambda t: (-cost(dict(t)), -len(t))))
    by_level: dict[tuple[str, Level], list[Tuple]] = {}
    for t in wanted:
        for item in t:
            by_level.setdefault(item, []).append(t)
    pairs: set[Tuple] = set()

    def preference(row: Row, name: str) -> tuple[float, ...]:
        held, item = row.items(), (name, row[name])
        closed = sum(t in rest and all(i in held for i in t) for t in by_level.get(item, ()))
        fresh = sum((other, item) not in pairs for other in held)
        return closed == 0, round(math.log2(max(cost(row), CHEAP))), -closed, -fresh, zlib.crc32(repr(row).encode())

    while rest:
        row = complete(dict(next(iter(rest))), preference)
        if row is None:
            del rest[next(iter(rest))]  # no kernel has these levels together
            continue
        yield row
        pairs |= set(itertools.permutations(row.items(), 2))
        for t in [t for t in rest if all(row[name] == level for name, level in t)]:
            del rest[t]


def complete(row: Row, preference: Callable[[Row, str], Any]) -> Row | None:
    """``row`` with a level for every factor, the preferred one (the least) that leads to a legal row; None where none
    does. ``preference(row, name)``: of the level that ``row`` gives to the factor ``name``.
    """
    if not legal(row):
        return None
    name = next((name for name in FACTORS if name not in row), None)
    if name is None:
        return {name: row[name] for name in FACTORS}
    tried = [{**row, name: level} for level in FACTORS[name]]
    tried.sort(key=lambda more: preference(more, name))
    return next((done for more in tried if (done := complete(more, preference))), None)


def legal(row: Mapping[str, Level]) -> bool:
    """Whether no constraint is broken, as far as the row goes."""
    return all(
        holds(*(row[name] for name in names)) for names, holds in CONSTRAINTS if all(name in row for name in names)
    )


def cost(row: Mapping[str, Any]) -> float:
    """About how long the kernel of a (part of a) row takes to compile and check, in no unit: unrolled tokens times
    products with the state, and the state itself.
    """
    nf = RECURRENCES[row["recurrence"]].normal_form if "recurrence" in row else None
    products = len(nf.reads) * len(nf.writes) if nf else 1
    state = row.get("K", 64) * row.get("V", 64) * row.get("ratio", 1)
    unrolled = min(row.get("window", 1), MOST_TOKENS) * (0.2 if row.get("layout") == "KV" else 1.0)
    return (1 + unrolled) * products + state * (16 + row.get("buffer", 1)) / 2**18
