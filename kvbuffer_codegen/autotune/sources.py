"""What the sources of this package do, as a hash: answers that other sources gave do not count."""

from __future__ import annotations

import ast
import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path


@functools.cache
def sources_hash(*names: str, without: str = "") -> str:
    """Twelve hex digits over modules and whole packages below ``kvbuffer_codegen``, comments and docstrings aside;
    ``without``: the name of folders to leave out."""
    digest = hashlib.sha256()
    for name in names:
        found = find_spec(f"kvbuffer_codegen.{name}")
        origin = Path(str(found and found.origin))
        for file in sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]:
            place = file.relative_to(origin.parent)
            if without not in place.parts:
                digest.update((place.as_posix() + "\0" + program_text(file.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:12]


def program_text(source: str) -> str:
    """Lines of Python source, without docstrings, lines of comments and empty ones: the same text whatever the version
    of Python, whose own ways to print a program differ."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            docstring = node.body[0]  # type: ignore[attr-defined]
            dropped |= set(range(docstring.lineno, docstring.end_lineno + 1))
    lines = [line.rstrip() for n, line in enumerate(source.splitlines(), 1) if n not in dropped]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))
