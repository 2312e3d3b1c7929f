"""Which kernel serves a call: a pure function of files and of sizes that the host knows, so that every rank of a job
picks the same.

The chain: what :func:`pin` and the policy file say; the choice of an ``index.json`` for this device; one for another
device of the same architecture; the torch reference, with a warning (``strict``: an error). Folders with indexes are
those of ``caches.search_path()``; ``strict`` looks at what ships alone. A digest that an index lists must be that of
the file.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import Artifact, ArtifactError, Device, fits, read_artifact
from kvbuffer_codegen.index import INDEX, Choice, Index, read_index
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.runtime import ops
from kvbuffer_codegen.runtime.arguments import kernel_spec
from kvbuffer_codegen.runtime.errors import KernelError
from kvbuffer_codegen.runtime.loader import describe, load_artifact
from kvbuffer_codegen.runtime.policy import Override, policy
from kvbuffer_codegen.runtime.reference import ReferenceKernel

#: What stands for an artifact where the torch reference serves.
REFERENCE = "reference"
#: Rows that ``batch_invariant`` looks a choice up for, whatever the batch.
ANY_BATCH = 2**31 - 1


class MissingKernelError(LookupError):
    """No artifact serves a key; the message says what is missing and how to make it."""


class FallbackWarning(UserWarning):
    """A kernel is missing, and torch operations serve instead: right, and slow."""


class Decision(NamedTuple):
    """``artifact``: a folder, or "reference". ``why``: one line."""

    artifact: Path | str
    why: str


@dataclass(frozen=True)
class _Candidate:
    folder: Path
    digest: str | None
    why: str


_pins: dict[str, Artifact] = {}
_loaded: dict[str, Callable[..., None]] = {}
_warned: set[str] = set()


def find(*, device: torch.device | str = "cpu", batch: int = 1, strict: bool = False, **key: Any) -> Artifact:
    """The artifact that serves ``batch`` rows of the kernel that ``key`` describes (:func:`kernel_spec`).

    Raises :class:`MissingKernelError` where there is none: the reference is no artifact.
    """
    spec, rows = kernel_spec(**key), batch * key.get("heads", (1, 1))[1]
    artifact, _, reasons = _search(spec, torch.device(device), rows, strict)
    if artifact is None:
        raise MissingKernelError(_missing(spec, torch.device(device), reasons))
    return artifact


def which(*, device: torch.device | str = "cpu", batch: int = 1, strict: bool = False, **key: Any) -> Decision:
    """What would serve the call, and why. Arguments as :func:`find`; nothing is loaded and nothing warns."""
    spec, rows = kernel_spec(**key), batch * key.get("heads", (1, 1))[1]
    artifact, why, reasons = _search(spec, torch.device(device), rows, strict)
    if artifact is None:
        return Decision(REFERENCE, why or _missing(spec, torch.device(device), reasons))
    return Decision(artifact.folder, why)


def pin(key: KernelSpec | Mapping[str, Any], artifact: Artifact | Path | str | None) -> None:
    """From now on ``artifact`` (a folder) serves ``key``, on every device that it fits; None takes a pin back.

    ``key``: a spec, or a mapping with the arguments of :func:`kernel_spec`. Pools that have looked the kernel up keep
    what they have. Raises ``ArtifactError`` where the artifact is damaged or is another kernel.
    """
    spec = key if isinstance(key, KernelSpec) else kernel_spec(**key)
    if artifact is None:
        _pins.pop(spec.name, None)
        return
    artifact = artifact if isinstance(artifact, Artifact) else read_artifact(Path(artifact))
    _check_is(spec, artifact)
    _pins[spec.name] = artifact


def select(
    spec: KernelSpec, device: torch.device, rows: int, *, strict: bool = False, batch_invariant: bool = False
) -> str:
    """Load the kernel that serves ``rows`` value-head rows, and return the name that operators call it by.

    Falls back to the torch reference, warning once for each key and device, or with ``strict`` raises
    :class:`MissingKernelError`.
    """
    artifact, why, reasons = _search(spec, device, ANY_BATCH if batch_invariant else rows, strict)
    if artifact is not None:
        try:
            return _load(artifact, device)
        except (ArtifactError, KernelError) as error:
            if strict:
                raise
            why, reasons = "", [*reasons, str(error)]
    if not why:  # nobody asked for the reference
        text = _missing(spec, device, reasons)
        if strict:
            raise MissingKernelError(text)
        _warn(f"{spec.name} on {device.type}", text)
    name = f"{spec.name}@{REFERENCE}:{device.type}"
    return name if name in _loaded else _register(name, ReferenceKernel(spec, device))


def token_form(
    decode: KernelSpec, step: KernelSpec, device: torch.device, rows: int, *, batch_invariant: bool = False
) -> str:
    """ "decode" or "step": the form of a token step of ``rows`` value-head rows, for all its layers.

    The policy file's word, else the form whose chosen kernel was measured to be faster on this device at the nearest
    number of rows, else (nothing measured, or ``batch_invariant``) decode.
    """
    told = policy().form
    if told != "auto" or batch_invariant:
        return "decode" if told == "auto" else told
    times = []
    for spec in (decode, step):
        artifact, _, _ = _search(spec, device, rows, False)
        times.append(_measured(artifact, device, rows))
    slow, fast = times
    return "step" if slow is not None and fast is not None and fast < slow else "decode"


def _measured(artifact: Artifact | None, device: torch.device, rows: int) -> float | None:
    """Microseconds of the newest timing on this device at the number of rows nearest to ``rows``."""
    if artifact is None:
        return None
    name = describe(device).name
    timings = [
        e["result"]
        for e in artifact.manifest["evidence"]
        if e["kind"] == "timing" and e["device"] == name and {"us", "rows"} <= e["result"].keys()
    ]
    if not timings:
        return None
    nearest = min(abs(t["rows"] - rows) for t in timings)
    return float([t["us"] for t in timings if abs(t["rows"] - rows) == nearest][-1])


# --- the chain


def _search(spec: KernelSpec, device: torch.device, rows: int, strict: bool) -> tuple[Artifact | None, str, list[str]]:
    """(artifact, why, reasons against the others); without an artifact, ``why`` says who asked for the reference."""
    if spec.name in _pins:
        return _pins[spec.name], "pinned", []
    override = policy().override(spec, rows)
    if override is not None and override.artifact is None:
        return None, f"the policy file {policy().path} asks for the reference", []
    reasons: list[str] = []
    machine = describe(device)
    for candidate in _candidates(spec, machine, rows, strict, override, reasons):
        try:
            artifact = read_artifact(candidate.folder, candidate.digest)
            _check_is(spec, artifact)
        except ArtifactError as error:
            reasons.append(str(error))
            continue
        reason = fits(artifact.manifest, machine)
        if reason is None:
            return artifact, candidate.why, reasons
        reasons.append(f"{candidate.folder}: {reason}")
    return None, "", reasons


def _candidates(
    spec: KernelSpec, device: Device, rows: int, strict: bool, override: Override | None, reasons: list[str]
) -> Iterator[_Candidate]:
    if override is not None and override.artifact is not None:
        yield _Candidate(override.artifact, None, f"the policy file {policy().path} says so")
    folders = [caches.shipped_folder()] if strict else caches.search_path()
    key = spec.key()
    found: list[tuple[Any, _Candidate]] = []
    for place, folder in enumerate(folders):
        try:
            index = _index(folder, _stamp(folder))
        except ArtifactError as error:
            reasons.append(str(error))
            continue
        for choice in index.choices:
            if choice.capability != device.capability or any(choice.key.get(k) != v for k, v in key.items()):
                continue
            here = choice.device == device.name
            distance = _distance(choice, rows)
            order = (not here, distance, bool(choice.device), place, choice.artifact)
            found.append(
                (
                    order,
                    _Candidate(
                        folder / choice.artifact, index.artifacts[choice.artifact], _why(choice, here, distance, folder)
                    ),
                )
            )
    yield from (candidate for _, candidate in sorted(found, key=lambda pair: pair[0]))


def _distance(choice: Choice, rows: int) -> int:
    """How far ``rows`` is from the rows that the choice was made for; 0 inside."""
    lo, hi = choice.rows
    return max(lo - rows, 0 if hi is None else rows - hi, 0)


def _why(choice: Choice, here: bool, distance: int, folder: Path) -> str:
    lo, hi = choice.rows
    who = (
        "tuned for this device" if here else f"tuned for {choice.device or choice.capability}, of the same architecture"
    )
    if choice.default:
        who = f"the default schedule for {choice.device or choice.capability}"
    span = f"{lo} to {hi} value-head rows" if hi is not None else f"{lo} value-head rows and more"
    return f"{who}, {span}{' (the nearest bucket)' if distance else ''}, in {folder}"


def _stamp(folder: Path) -> tuple[int, int, int] | None:
    """What changes when an index is written anew."""
    try:
        status = os.stat(folder / INDEX)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=64)
def _index(folder: Path, stamp: tuple[int, int, int] | None) -> Index:
    return read_index(folder) if stamp else Index()


def _check_is(spec: KernelSpec, artifact: Artifact) -> None:
    """Raises ``ArtifactError`` unless the artifact is a kernel of ``spec``."""
    manifest, key = artifact.manifest, spec.key()
    recurrence = manifest["recurrence"]
    actual = {
        name: manifest[name] for name in ("form", "io", "state", "layout", "buffer", "window", "kv_only", "ratio")
    }
    actual |= {"K": manifest["dims"]["K"], "V": manifest["dims"]["V"], "records": manifest["records_mode"]}
    actual |= {"recurrence_hash": recurrence["hash"] if recurrence else ""}
    for name, value in actual.items():
        if key[name] != value:
            raise ArtifactError(f"{artifact.folder} is a kernel with {name}={value!r}; needed: {name}={key[name]!r}")


def _load(artifact: Artifact, device: torch.device) -> str:
    where = str(device) if device.index is not None or device.type == "cpu" else f"cuda:{torch.cuda.current_device()}"
    name = f"{artifact.name}@{artifact.digest[:16]}:{where}"
    return name if name in _loaded else _register(name, load_artifact(artifact, device))


def _register(name: str, kernel: Callable[..., None]) -> str:
    _loaded[name] = kernel
    return ops.register(name, kernel)


# --- what is said


def _warn(key: str, text: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(f"{text} (torch operations serve until then, slowly)", FallbackWarning, stacklevel=_callers())


def _callers() -> int:
    """The stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kvbuffer_codegen."):
        level, frame = level + 1, frame.f_back
    return level


def _missing(spec: KernelSpec, device: torch.device, reasons: list[str]) -> str:
    key = spec.key()
    fields = ("K", "V", "ratio", "io", "state", "layout", "buffer", "window", "kv_only") if spec.recurrence else ()
    what = ", ".join(f"{name}={key[name]}" for name in fields if key[name])
    refused = f" Refused: {'; '.join(reasons)}." if reasons else ""
    return (
        f"No {spec.form} kernel for {key['recurrence']} on {device.type}{f' ({what})' if what else ''}.{refused} "
        f"Make it with: {tune_command(spec, device)}"
    )


def tune_command(spec: KernelSpec, device: torch.device) -> str:
    """The command line that makes the kernel of ``spec`` for ``device``."""
    parts = ["kvbuffer-codegen tune"]
    if spec.recurrence:
        parts += [spec.recurrence.name, f"--heads 1,{spec.ratio} --dims {spec.K},{spec.V} --io {spec.io}"]
        parts += [f"--state {spec.state} --layout {spec.layout} --buffer {spec.buffer}"]
        parts += [
            f"--{name.replace('_', '-')} {value}"
            for name, value in (("window", spec.window), ("kv_only", spec.kv_only))
            if value
        ]
    return " ".join([*parts, f"--form {spec.form}", f"--target {'cpu' if device.type == 'cpu' else 'native'}"])
