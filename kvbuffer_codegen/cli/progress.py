"""A progress bar on stderr: with rich, on a terminal; elsewhere nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

Report = Callable[[float, float, str], None]


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Report]:
    """Yields ``report(done, total, text)``."""
    bar = None if quiet or not sys.stderr.isatty() else _bar()
    if bar is None:
        yield lambda done, total, text: None
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def _bar():  # type: ignore[no-untyped-def]
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:
        return None
    text = TextColumn("{task.description:<28}")
    return Progress(text, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True))
