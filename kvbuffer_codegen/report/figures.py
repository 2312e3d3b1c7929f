"""What a picture shows, as numbers: the same values are drawn, printed as JSON and listed on the page."""

from __future__ import annotations

from dataclasses import dataclass, field

MEASURED, MODEL = "measured", "model"
OURS = "ours"  #: the curve among others' that is drawn thick
BELOW = 6
PREDICTED = "cost model: "  #: before the name of what it predicts


@dataclass(frozen=True)
class Curve:
    """``points``: (x, y), or where repeats are known (x, y, least, most). ``kind``: "measured", or "model" for what the
    cost model predicts. ``color``: curves of one color belong together."""

    label: str
    kind: str
    points: tuple[tuple[float, ...], ...]
    color: str = ""


@dataclass(frozen=True)
class Panel:
    """One pair of axes, with x on a scale of powers of two."""

    title: str
    x_label: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Figure:
    """``panels`` side by side; none: nothing is drawn, and ``notes`` say why. ``log``: y on a logarithmic scale, which
    begins about a factor of :data:`BELOW` under what was measured: of the model's curves the low parts may be cut."""

    name: str
    title: str
    y_label: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    log: bool = False

    @property
    def empty(self) -> bool:
        return not self.panels


@dataclass(frozen=True)
class Grid:
    """A table of shares (0 to 1, or more; None: not measured), drawn as colored cells. Rows whose names begin alike,
    up to the colon, are a group."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.rows


@dataclass(frozen=True)
class Section:
    """One layer on one device: ``facts`` are lines of text, ``table`` rows of cells under ``header``."""

    name: str
    title: str
    facts: tuple[str, ...]
    figures: tuple[Figure | Grid, ...]
    header: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = field(default=())
