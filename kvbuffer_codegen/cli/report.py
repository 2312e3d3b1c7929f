"""``report``: one HTML page and its pictures, from tuning logs and peer measurements alone."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvbuffer_codegen.cli.common import DONE, FAILED, CommandError, one_line, print_json

HELP = "draw tuning logs: one HTML page and PNGs (needs matplotlib)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        type=Path,
        help="logs of `tune`, or folders of them (default: the user's cache)",
    )
    parser.add_argument("--peers", type=Path, metavar="FILE.json", help="what benchmarks/peers.py wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for report.html and the PNGs")


def run(args: argparse.Namespace) -> int:
    from kvbuffer_codegen.report.page import render
    from kvbuffer_codegen.report.plots import MatplotlibError, png

    sections, sources = _sections(args)
    if not sections:
        raise CommandError("LOG: no kernel was timed to the end in these logs; run `kvbuffer-codegen tune`", FAILED)
    pictures = {}
    try:
        for section in sections:
            for figure in section.figures:
                if not figure.empty:
                    pictures[section.name, figure.name] = png(figure, section.title)
    except MatplotlibError as error:
        raise CommandError(str(error), FAILED) from None
    args.out.mkdir(parents=True, exist_ok=True)
    for (section_name, figure_name), data in pictures.items():
        (args.out / f"{section_name}-{figure_name}.png").write_bytes(data)
    (args.out / "report.html").write_text(render(sections, pictures, sources), encoding="utf-8")
    if args.json:
        print_json({"sources": sources, "sections": [asdict(section) for section in sections]})
    else:
        print(f"{args.out / 'report.html'}: {len(sections)} sections, {len(pictures)} pictures")
        for section in sections:
            for note in (note for figure in section.figures for note in figure.notes if figure.empty):
                print(f"  {section.title}: {note}")
    return DONE


def _sections(args: argparse.Namespace) -> tuple[list[Any], list[str]]:
    """The page's sections, and the names of the files that they are from. Raises :class:`CommandError`."""
    from kvbuffer_codegen import caches
    from kvbuffer_codegen.autotune.logs import LogError
    from kvbuffer_codegen.report import peers, series, timings

    logs = args.logs or ([] if args.peers else [caches.cache_root() / "tuning_logs"])
    try:
        files = timings.log_files(logs)
        sections = series.sections(timings.read_timings(files))
    except LogError as error:
        raise CommandError(one_line(error), FAILED) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    names = [file.name for file in files]
    if args.peers:
        try:
            sections.append(peers.section(json.loads(args.peers.read_text(encoding="utf-8"))))
        except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
            what = f"{type(error).__name__}: {one_line(error)}"
            raise CommandError(f"--peers {args.peers} is not what benchmarks/peers.py wrote ({what})") from None
        names.append(args.peers.name)
    return sections, names
