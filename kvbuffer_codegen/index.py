"""`index.json` of a folder of artifacts: which artifacts it holds, with digests, and which of them to choose for a
call.

A *choice* says: for this key, this many value-head rows and this capability, take that artifact. Choices are a
function of shipped files and sizes that the host knows, so every rank of a job picks the same kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from kvbuffer_codegen.artifact import ArtifactError, decode, encode, write_file

INDEX = "index.json"
SCHEMA = 1
#: ``schedules.space_hash()`` of this version, for the runtime, which imports no schedules. Choices that were made among
#: other candidates are void: a change of it says so to every index.
SPACE = "c152379847fe"


@dataclass(frozen=True)
class Choice:
    """``rows``: value-head rows B * HV from ``lo`` to ``hi``, both included, ``hi`` None for no end.

    ``capability`` is that of :class:`~kvbuffer_codegen.artifact.Device`; ``device``, a device name, refines it where
    not empty. ``artifact``: folder, relative to the index. ``default``: nothing was measured, or nothing beat the
    default schedule.
    """

    key: Mapping[str, Any]
    rows: tuple[int, int | None]
    capability: str
    artifact: str
    device: str = ""
    default: bool = False

    @property
    def identity(self) -> str:
        """Equal for choices of which only one can be right; the later replaces the earlier, whatever its space."""
        key = {name: value for name, value in self.key.items() if name != "space"}
        return json.dumps([key, self.rows, self.capability, self.device], sort_keys=True)

    @property
    def stale(self) -> bool:
        """Made among the candidates of another version."""
        return self.key.get("space", SPACE) != SPACE


@dataclass(frozen=True)
class Index:
    """``artifacts``: folder (relative, with /) -> sha256 of its manifest.json. ``portable``: file of Triton source ->
    its sha256."""

    artifacts: Mapping[str, str] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    portable: Mapping[str, str] = field(default_factory=dict)


def read_index(folder: Path) -> Index:
    """The index of ``folder``, empty where there is none. Raises :class:`~kvbuffer_codegen.artifact.ArtifactError`."""
    path = Path(folder) / INDEX
    if not path.exists():
        return Index()
    data, _ = decode(path)
    try:
        return _from_json(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: {error}; build or fetch it again") from None


def write_index(folder: Path, index: Index) -> Path:
    """Write ``folder``/index.json at once, sorted so that the same index gives the same bytes."""
    path = Path(folder) / INDEX
    path.parent.mkdir(parents=True, exist_ok=True)
    data = _to_json(index)
    _from_json(data)
    write_file(path, encode(data))
    return path


def merge(*indexes: Index) -> Index:
    """All artifacts, choices and portable kernels; where two speak of the same, the later one wins."""
    artifacts = {folder: digest for index in indexes for folder, digest in index.artifacts.items()}
    choices = {choice.identity: choice for index in indexes for choice in index.choices}
    portable = {file: digest for index in indexes for file, digest in index.portable.items()}
    return Index(artifacts, tuple(choices.values()), portable)


def update_index(
    folder: Path,
    artifacts: Mapping[str, str] | None = None,
    choices: Iterable[Choice] = (),
    portable: Mapping[str, str] | None = None,
) -> Index:
    """Merge these into the index of ``folder``, safe against other processes that do the same, and return the
    result. Choices of another version of the schedules are dropped, their artifacts stay; portable kernels have
    nothing to do with them."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with _locked(Path(folder)):
        index = merge(read_index(folder), Index(artifacts or {}, tuple(choices), portable or {}))
        if portable is None:
            index = replace(index, choices=tuple(c for c in index.choices if not c.stale))
        write_index(folder, index)
    return index


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _to_json(index: Index) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "artifacts": [{"folder": f, "manifest": index.artifacts[f]} for f in sorted(index.artifacts)],
        "choices": [
            {
                "key": dict(c.key),
                "rows": list(c.rows),
                "capability": c.capability,
                "device": c.device,
                "artifact": c.artifact,
                "default": c.default,
            }
            for c in sorted(index.choices, key=lambda c: c.identity)
        ],
        "portable": [{"file": f, "sha256": index.portable[f]} for f in sorted(index.portable)],
    }


def _from_json(data: Any) -> Index:
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"schema {data.get('schema') if isinstance(data, dict) else data!r}; accepted: {SCHEMA}")
    artifacts = {_relative(a["folder"]): _digest(a["manifest"]) for a in data["artifacts"]}
    choices = []
    for c in data["choices"]:
        lo, hi = c["rows"]
        if not isinstance(lo, int) or not (hi is None or (isinstance(hi, int) and lo <= hi)) or lo < 0:
            raise ValueError(f"rows {c['rows']!r}; accepted: [lo, hi] with 0 <= lo <= hi, or hi null")
        if not isinstance(c["key"], dict) or not isinstance(c["default"], bool):
            raise ValueError(f"choice {c!r}; accepted: an object as key, true or false as default")
        if c["artifact"] not in artifacts:
            raise ValueError(f"choice of {c['artifact']!r}, which is not among the artifacts")
        choices.append(Choice(c["key"], (lo, hi), str(c["capability"]), c["artifact"], str(c["device"]), c["default"]))
    portable = {_relative(p["file"]): _digest(p["sha256"]) for p in data.get("portable", ())}
    return Index(artifacts, tuple(choices), portable)


def _relative(folder: str) -> str:
    path = PurePosixPath(folder)
    plain = folder.isprintable() and str(path) == folder != "."  # no NUL, no lone surrogate: no system takes them
    if not plain or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"artifact folder {folder!r}; accepted: a plain path below the index")
    return folder


def _digest(text: str) -> str:
    if not isinstance(text, str) or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError(f"digest {text!r}; accepted: a sha256 in 64 lower-case hex digits")
    return text
