"""The policy file, named by ``KVBUFFER_CODEGEN_POLICY``: an operator's word over the dispatcher's own choices.

    {
      "form": "decode",
      "overrides": [
        {"key": {"form": "verify", "io": "bfloat16"}, "rows": [1, 64], "artifact": "my_kernels/verify"},
        {"key": {"recurrence": "gated_delta_rule", "form": "flush"}, "artifact": "reference"}
      ]
    }

``form``: what `Pool.decode` runs, "auto" (default), "decode" or "step". An override holds for every kernel whose key
has these values (``KernelSpec.key()``) and for value-head rows from lo to hi (null: no end; default: all); the first
that holds counts. ``artifact``: a folder, relative to the file, or "reference" for torch.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import ArtifactError, decode
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec

VARIABLE = "KVBUFFER_CODEGEN_POLICY"
FORM_CHOICES = ("auto", "decode", "step")
_KEY_FIELDS = (*cursor_spec("advance", "stochastic").key(), "tree")
#: What a key says of these fields where it leaves them out.
_DEFAULTS = {"rounding": "nearest", "tree": False}


class PolicyError(ValueError):
    """A policy file that is not what this module describes: names the field and what is accepted."""


@dataclass(frozen=True)
class Override:
    """``artifact``: a folder, None for the reference. ``rows``: both included, None for no end."""

    key: Mapping[str, Any]
    rows: tuple[int, int | None]
    artifact: Path | None

    def holds(self, spec: KernelSpec, rows: int) -> bool:
        lo, hi = self.rows
        key = spec.key()
        return (
            lo <= rows
            and (hi is None or rows <= hi)
            and all(key.get(name, _DEFAULTS.get(name)) == value for name, value in self.key.items())
        )


@dataclass(frozen=True)
class Policy:
    path: Path | None = None
    form: str = "auto"
    overrides: tuple[Override, ...] = ()

    def override(self, spec: KernelSpec, rows: int) -> Override | None:
        return next((o for o in self.overrides if o.holds(spec, rows)), None)


def policy() -> Policy:
    """The policy that the environment names, read once per file. Raises :class:`PolicyError`."""
    named = os.environ.get(VARIABLE)
    return _read(Path(os.path.expanduser(named)).absolute()) if named else Policy()


@functools.lru_cache(maxsize=8)
def _read(path: Path) -> Policy:
    try:
        data, _ = decode(path)
    except (ArtifactError, OSError) as error:
        raise PolicyError(f"{VARIABLE}={path}: {error}") from None
    if not isinstance(data, dict) or not data.keys() <= {"form", "overrides"}:
        given = ", ".join(data) if isinstance(data, dict) else repr(data)
        raise PolicyError(f"{path} has {given}; accepted: an object with form and overrides")
    form = data.get("form", "auto")
    if form not in FORM_CHOICES:
        raise PolicyError(f"{path}: form is {form!r}; accepted: {', '.join(FORM_CHOICES)}")
    listed = data.get("overrides", [])
    if not isinstance(listed, list):
        raise PolicyError(f"{path}: overrides is {listed!r}; accepted: a list of objects with key, rows and artifact")
    return Policy(path, form, tuple(_override(path, i, item) for i, item in enumerate(listed)))


def _override(path: Path, number: int, item: Any) -> Override:
    where = f"{path}: overrides[{number}]"
    if not isinstance(item, dict) or not {"key", "artifact"} <= item.keys() <= {"key", "artifact", "rows"}:
        raise PolicyError(f"{where} is {item!r}; accepted: an object with key, artifact and, where needed, rows")
    key, artifact, rows = item["key"], item["artifact"], item.get("rows", [0, None])
    if not isinstance(key, dict) or not key.keys() <= set(_KEY_FIELDS):
        raise PolicyError(f"{where}.key is {key!r}; accepted: an object with some of {', '.join(_KEY_FIELDS)}")
    if not isinstance(artifact, str) or not artifact.isprintable():
        raise PolicyError(f"{where}.artifact is {artifact!r}; accepted: a folder, or reference")
    whole = isinstance(rows, list) and len(rows) == 2 and isinstance(rows[0], int) and isinstance(rows[1], int | None)
    if not whole:
        raise PolicyError(f"{where}.rows is {rows!r}; accepted: [lo, hi], hi null for no end")
    return Override(key, (rows[0], rows[1]), None if artifact == "reference" else path.parent / artifact)
