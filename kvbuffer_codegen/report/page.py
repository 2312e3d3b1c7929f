"""The report as one HTML file: pictures inside as PNG, no script, nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from kvbuffer_codegen.report.figures import Figure, Grid, Section

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 2em auto; padding: 0 1.5em; color: #222; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; margin-top: 2.5em; border-top: 1px solid #ccc; padding-top: 1em; }
h3 { font-size: 1.05em; margin-top: 2em; } img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } .wide { overflow-x: auto; margin: 1em 0; } .note { color: #555; }
"""
INTRODUCTION = (
    "Times are microseconds of one call for one layer: median, over whole buffer cycles with staggered folds and cold "
    "caches; bars reach from the fastest to the slowest repeat. The cost model, dashed, is the bytes that a call must "
    "move, each once, at the read bandwidth measured in the same run (on logarithmic axes it is cut where it lies far "
    "below what was measured); the share of the byte floor is that over the time taken. B: rows of a batch; L: length "
    "of the buffer in tokens; T: tokens of a verify window; C: tokens that a row may hold as records alone, with no "
    "state (kv_only)."
)


def render(sections: Sequence[Section], pictures: Mapping[tuple[str, str], bytes], sources: Sequence[str]) -> str:
    """The page. ``pictures``: PNG by the names of section and figure; ``sources``: files that the numbers are from."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>kvbuffer-codegen report</title>',
        f'<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>kvbuffer-codegen report</h1>',
        _paragraph(INTRODUCTION),
        _paragraph(f"From: {', '.join(sources)}.", "note"),
    ]
    if len(sections) > 1:
        links = "".join(f'<li><a href="#{escape(s.name)}">{escape(s.title)}</a></li>\n' for s in sections)
        parts.append(f"<ul>\n{links}</ul>")
    for section in sections:
        parts.append(f'<h2 id="{escape(section.name)}">{escape(section.title)}</h2>')
        parts += [_paragraph(fact) for fact in section.facts]
        for figure in section.figures:
            parts += _figure(section, figure, pictures)
        if section.table:
            parts.append(_table(section.header, section.table))
    return "\n".join([*parts, "</body>\n</html>\n"])


def _figure(section: Section, figure: Figure | Grid, pictures: Mapping[tuple[str, str], bytes]) -> list[str]:
    parts = [f"<h3>{escape(figure.title)}</h3>"]
    if picture := pictures.get((section.name, figure.name)):
        text = base64.b64encode(picture).decode()
        parts.append(f'<p><img alt="{escape(figure.title)}" src="data:image/png;base64,{text}"></p>')
    parts += [_paragraph(note, "note") for note in figure.notes]
    if isinstance(figure, Figure) and not figure.empty:
        rows = [
            (panel.title, curve.label, "  ".join(f"{p[0]:g}: {p[1]:.4g}" for p in curve.points))
            for panel in figure.panels
            for curve in panel.curves
        ]
        numbers = _table(("panel", "curve", f"x: {figure.y_label}"), rows)
        parts.append(f"<details><summary>Numbers</summary>{numbers}</details>")
    return parts


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
