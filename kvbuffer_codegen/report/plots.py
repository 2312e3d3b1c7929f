"""Pictures of figures: PNG bytes, drawn by matplotlib without a display. The only module that imports it."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from kvbuffer_codegen.report.figures import BELOW, MEASURED, MODEL, OURS, PREDICTED, Curve, Figure, Grid, Panel

DPI = 110
#: Panels: the most in a row, and inches of one. Many are drawn smaller.
FEW = (3, 4.6, 3.3)
MANY = (4, 3.5, 2.7)
#: Markers tell curves apart where colors do not.
MARKERS = "osD^vPX<>*"
#: Markers that lie on each other are still seen.
HOLLOW: dict[str, Any] = {"markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.4}
SAME_COLOR = "dashed: cost model"
#: Okabe and Ito's colors, which most readers tell apart, without the yellow that white swallows.
GRAY = "#666666"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F", "#8C564B", "#9467BD")


class MatplotlibError(RuntimeError):
    """matplotlib is not installed."""


def matplotlib() -> Any:
    """The package, with a canvas that needs no display. Raises :class:`MatplotlibError`."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError:
        raise MatplotlibError(
            "pictures need matplotlib, which is not installed; pip install 'kvbuffer-codegen[report]'"
        ) from None
    return matplotlib


def png(figure: Figure | Grid, subtitle: str = "") -> bytes:
    """``figure`` as a PNG file; ``subtitle``: a line below its title.

    Raises :class:`MatplotlibError`, and ``ValueError`` where it is empty.
    """
    out = io.BytesIO()
    # Without the version that matplotlib notes: the same numbers give the same file.
    draw(figure, subtitle).savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def draw(figure: Figure | Grid, subtitle: str = "") -> Any:
    """The same as a ``matplotlib.figure.Figure``."""
    if figure.empty:
        raise ValueError(f"figure {figure.name} is empty; its notes say why")
    plt = matplotlib()
    drawn = _grid(plt, figure) if isinstance(figure, Grid) else _panels(plt, figure)
    width = int(drawn.get_size_inches()[0] * 13)
    drawn.suptitle("\n".join([figure.title, *textwrap.wrap(subtitle, width)]), fontsize=10)
    return drawn


def _panels(plt: Any, figure: Figure) -> Any:
    curves = [c for panel in figure.panels for c in panel.curves]
    styles = _styles(curves)
    count = len(figure.panels)
    most, width, height = FEW if count <= 6 else MANY
    columns = 2 if count == 4 else min(most, count)
    rows = math.ceil(count / columns)
    legend = _legend(curves)
    wide = width * max(columns, 2)
    across = max(1, int(wide // (0.085 * max(map(len, legend)) + 0.75)))
    below = 0.24 * math.ceil(len(legend) / across) + 0.2
    drawn = plt.figure.Figure(figsize=(wide, height * rows + 0.6 + below), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False)
    for i, ax in enumerate(axes.flat):
        if i < count:
            _panel(ax, figure.panels[i], styles, figure)
            if i % columns == 0:
                ax.set_ylabel(figure.y_label, fontsize=9)
        else:
            ax.set_axis_off()
    handles = [_handle(plt, c, styles) for c in legend.values()]
    drawn.legend(handles=handles, loc="outside lower center", ncols=across, frameon=False, fontsize=9)
    return drawn


def _panel(ax: Any, panel: Panel, styles: dict[str, tuple[str, str]], figure: Figure) -> None:
    for curve in panel.curves:
        color, marker = styles[curve.color]
        x, y = [p[0] for p in curve.points], [p[1] for p in curve.points]
        if curve.kind == MODEL:
            ax.plot(x, y, "--", color=color, linewidth=1.1)
            continue
        ax.plot(x, y, "-", color=color, linewidth=_width(curve), marker=marker, **HOLLOW)
        repeated = [p for p in curve.points if len(p) == 4 and p[2] < p[3]]
        if repeated:
            at, us, least, most = zip(*repeated, strict=True)
            spread = [[b - a for a, b in zip(least, us, strict=True)], [b - a for a, b in zip(us, most, strict=True)]]
            ax.errorbar(at, us, spread, fmt="none", ecolor=color, elinewidth=1, capsize=2.5)
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel(panel.x_label, fontsize=9)
    ax.set_xscale("log", base=2)
    _ticks(ax.xaxis, sorted({p[0] for c in panel.curves for p in c.points}))
    if figure.log:
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], _bottom(panel)))
        _log_ticks(ax)
    else:
        ax.set_ylim(bottom=0)
    ax.tick_params(labelsize=8)
    ax.grid(True, which="major", color="#dddddd", linewidth=0.6)


def _bottom(panel: Panel) -> float:
    """Where a logarithmic axis begins: some way below what was measured, and where every model's end is still seen."""
    measured = [p[1] / BELOW for c in panel.curves if c.kind == MEASURED for p in c.points]
    highest = [max(p[1] for p in c.points) / 1.5 for c in panel.curves if c.kind == MODEL]
    return min(measured + highest) if measured else 0.0


def _ticks(axis: Any, values: Sequence[float]) -> None:
    """Powers of two over the range; numbers as they are, not as exponents."""
    from matplotlib import ticker

    low, high = math.floor(math.log2(values[0])), math.ceil(math.log2(values[-1]))
    step = max(1, math.ceil((high - low + 1) / 8))
    axis.set_major_locator(ticker.FixedLocator([2.0**i for i in range(low, high + 1, step)]))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_locator(ticker.NullLocator())


def _log_ticks(ax: Any) -> None:
    """1, 2 and 5 of each power of ten, on short axes more: a decade alone would leave most axes with one label."""
    from matplotlib import ticker

    low, high = ax.get_ylim()
    subs = (1, 2, 5) if high > 20 * low else (1, 1.5, 2, 3, 5, 7)
    ax.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=12))
    ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())


def _legend(curves: Sequence[Curve]) -> dict[str, Curve]:
    """Curves by their labels; a model of what was measured under the same name needs none of its own."""
    measured = {c.label for c in curves if c.kind == MEASURED}
    twins = [c for c in curves if c.kind == MODEL and c.label.removeprefix(PREDICTED) == c.color in measured]
    legend = {c.label: c for c in curves if c not in twins}
    return legend | ({SAME_COLOR: Curve(SAME_COLOR, MODEL, ())} if twins else {})


def _styles(curves: Sequence[Curve]) -> dict[str, tuple[str, str]]:
    names = list(dict.fromkeys(c.color for c in curves))
    return {"": (GRAY, "")} | {
        name: (COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)
    }


def _handle(plt: Any, curve: Curve, styles: dict[str, tuple[str, str]]) -> Any:
    from matplotlib.lines import Line2D

    color, marker = styles[curve.color]
    if curve.kind == MODEL:
        return Line2D([], [], color=color, linestyle="--", linewidth=1.1, label=curve.label)
    return Line2D([], [], color=color, marker=marker, linewidth=_width(curve), label=curve.label, **HOLLOW)


def _width(curve: Curve) -> float:
    return 2.6 if curve.label == OURS else 1.4


def _grid(plt: Any, grid: Grid) -> Any:
    rows, columns = len(grid.rows), len(grid.columns)
    wide = 0.082 * max(map(len, grid.rows)) + 0.95 * columns + 1.6
    drawn = plt.figure.Figure(figsize=(max(wide, 7.2), 0.3 * rows + 1.7), layout="constrained")
    ax = drawn.subplots()
    shown = [[math.nan if v is None else min(v, 1.0) for v in row] for row in grid.values]
    image = ax.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(grid.values):
        for j, value in enumerate(row):
            text = "-" if value is None else f"{100 * value:.0f}"
            color = "white" if value is not None and value > 0.65 else "black"
            ax.text(j, i, text, ha="center", va="center", fontsize=9, color=color)
    groups = [name.split(":")[0].split()[0] for name in grid.rows]
    for i in (i for i in range(1, rows) if groups[i] != groups[i - 1]):
        ax.axhline(i - 0.5, color="#666666", linewidth=1.2)
    ax.set_xticks(range(columns), grid.columns, fontsize=8)
    ax.set_yticks(range(rows), grid.rows, fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    bar = drawn.colorbar(image, ax=ax, shrink=0.8, pad=0.02, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.ax.set_yticklabels(["0 %", "25 %", "50 %", "75 %", "100 %"], fontsize=8)
    return drawn
