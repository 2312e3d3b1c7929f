"""Which kernel serves a call: a pure function of files and of sizes that the host knows, so that every rank of a job
picks the same.

The chain: what :func:`pin` and the policy file say; the choice of an ``index.json`` for this device; one for another
device of the same architecture; on a CUDA device where Triton is installed, the portable kernel of an ``index.json``;
the torch reference. The last two come with a warning (``strict``: an error). Folders with indexes are those of
``caches.search_path()``; ``strict`` looks at what ships alone. A digest that an index lists must be that of the file.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import Artifact, ArtifactError, Device, fits, read_artifact
from kvbuffer_codegen.index import INDEX, Choice, Index, read_index
from kvbuffer_codegen.ir import portable
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import RECURRENCES
from kvbuffer_codegen.runtime import ops
from kvbuffer_codegen.runtime.arguments import device_of, flags, folder_of, kernel_spec, whole
from kvbuffer_codegen.runtime.errors import KernelError, shown
from kvbuffer_codegen.runtime.loader import describe, load_artifact
from kvbuffer_codegen.runtime.policy import policy
from kvbuffer_codegen.runtime.reference import ReferenceKernel
from kvbuffer_codegen.runtime.triton_kernels import TritonKernel, available

_UNTUNED = "(the portable Triton kernel serves until then, untuned)"
_SLOW = "(torch operations serve until then, slowly)"
#: What stands for an artifact where the torch reference serves.
REFERENCE = "reference"
#: Rows that ``batch_invariant`` looks a choice up for, whatever the batch.
ANY_BATCH = 2**31 - 1


class MissingKernelError(LookupError):
    """No artifact serves a key; the message says what is missing and how to make it."""


class FallbackWarning(UserWarning):
    """A kernel is missing, and a portable one serves instead, untuned, or torch operations do: right, and slow."""


class Decision(NamedTuple):
    """``artifact``: a folder, a file of Triton source (a portable kernel), or "reference". ``why``: one line."""

    artifact: Path | str
    why: str


@dataclass(frozen=True)
class Call:
    """``batch`` rows of ``heads`` (H, HV) through the kernel of ``spec``."""

    spec: KernelSpec
    device: torch.device
    batch: int
    heads: tuple[int, int]

    @property
    def rows(self) -> int:
        """Value-head rows, which choices are keyed by."""
        return self.batch * self.heads[1]


#: Levels of a choice that serves: tuned for the device, tuned for another of its architecture, never tuned.
TUNED, RELATED, UNTUNED = range(3)


@dataclass(frozen=True)
class Candidate:
    """``distance``: how far, in value-head rows, the bucket is that the choice was made for; 0 inside."""

    folder: Path
    digest: str | None
    why: str
    level: int = TUNED
    distance: int = 0


@dataclass(frozen=True)
class _Found:
    """Without an artifact, ``why`` says who asked for the reference. ``reasons``: against what was refused before."""

    artifact: Artifact | None
    why: str
    reasons: list[str]


_pins: dict[str, Artifact] = {}
_loaded: dict[str, Callable[..., None]] = {}
_warned: set[str] = set()


def find(*, device: torch.device | str = "cpu", batch: int = 1, strict: bool = False, **key: Any) -> Artifact:
    """The artifact that serves ``batch`` rows of the kernel that ``key`` describes
    (:func:`~kvbuffer_codegen.runtime.arguments.kernel_spec`).

    Raises :class:`MissingKernelError` where there is none: the reference is no artifact.
    """
    flags(strict=strict)
    call = _call(device, batch, key)
    found = _search(call, strict)
    if found.artifact is None:
        raise MissingKernelError(_missing(call, found))
    return found.artifact


def find_kernel(*, device: torch.device | str, batch: int, **key: Any) -> Artifact | TritonKernel:
    """As :func:`find`, with a portable kernel, and a warning, where there is no artifact."""
    call = _call(device, batch, key)
    found = _search(call, False)
    if found.artifact is not None:
        return found.artifact
    kernel = None if found.why else portable_kernel(call, found.reasons)
    text = _missing(call, found)
    if kernel is None:
        raise MissingKernelError(text)
    _warn(f"{call.spec.name} on {call.device.type}", f"{text} {_UNTUNED}")
    return kernel


def which(*, device: torch.device | str = "cpu", batch: int = 1, strict: bool = False, **key: Any) -> Decision:
    """What would serve the call, and why. Arguments as :func:`find`; nothing is loaded and nothing warns."""
    flags(strict=strict)
    call = _call(device, batch, key)
    found = _search(call, strict)
    if found.artifact is not None:
        return Decision(found.artifact.folder, found.why)
    if not found.why and not strict:
        for path, _ in _portable_files(call):
            return Decision(path, f"the portable Triton kernel, untuned: {_missing(call, found)}")
    return Decision(REFERENCE, found.why or _missing(call, found))


def pin(key: KernelSpec | Mapping[str, Any], artifact: Artifact | Path | str | None) -> None:
    """From now on ``artifact`` (a folder) serves ``key``, on every device that it fits; None takes a pin back.

    ``key``: a spec, or a mapping with the arguments of ``kernel_spec``. Pools that have looked the kernel up keep what
    they have. Raises ``ArtifactError`` where the artifact is damaged or is another kernel.
    """
    if not isinstance(key, KernelSpec | Mapping):
        raise TypeError(f"key={shown(key)}; accepted: a KernelSpec, or a mapping with the arguments of kernel_spec")
    spec = key if isinstance(key, KernelSpec) else kernel_spec(**key)
    if artifact is None:
        _pins.pop(spec.name, None)
        return
    artifact = artifact if isinstance(artifact, Artifact) else read_artifact(folder_of(artifact))
    _check_is(spec, artifact)
    _pins[spec.name] = artifact


def select(
    spec: KernelSpec,
    device: torch.device,
    batch: int,
    heads: tuple[int, int],
    *,
    strict: bool = False,
    batch_invariant: bool = False,
) -> str:
    """Load the kernel that serves ``batch`` rows of ``heads``, and return the name that operators call it by.

    Falls back to a portable kernel or the torch reference, warning once for each key and device, or with ``strict``
    raises :class:`MissingKernelError`. ``batch_invariant``: the same kernel for every batch.
    """
    call = Call(spec, device, batch, heads)
    found = _search(call, strict, ANY_BATCH if batch_invariant else call.rows)
    if found.artifact is not None:
        try:
            return _load(found.artifact, device)
        except (ArtifactError, KernelError) as error:
            if strict:
                raise
            found = _Found(None, "", [*found.reasons, str(error)])
    if not found.why:  # nobody asked for the reference
        if strict:
            raise MissingKernelError(_missing(call, found))
        untuned = f"{spec.name}@triton:{_where(device)}"
        if untuned not in _loaded and (kernel := portable_kernel(call, found.reasons)):
            _register(untuned, kernel)
        serves = _UNTUNED if untuned in _loaded else _SLOW
        _warn(f"{spec.name} on {device.type}", f"{_missing(call, found)} {serves}")
        if untuned in _loaded:
            return untuned
    name = f"{spec.name}@{REFERENCE}:{device.type}"
    return name if name in _loaded else _register(name, ReferenceKernel(spec, device))


def token_form(
    decode: KernelSpec,
    step: KernelSpec,
    device: torch.device,
    batch: int,
    heads: tuple[int, int],
    *,
    batch_invariant: bool = False,
) -> str:
    """ "decode" or "step": the form of a token step of ``batch`` rows, for all its layers.

    The policy file's word, else the form whose chosen kernel was measured to be faster on this device at the nearest
    number of rows, else (nothing measured, or ``batch_invariant``) decode.
    """
    told = policy().form
    if told != "auto" or batch_invariant:
        return "decode" if told == "auto" else told
    calls = [Call(spec, device, batch, heads) for spec in (decode, step)]
    buffered, recurrent = (_measured(_search(call, False).artifact, call) for call in calls)
    return "step" if buffered is not None and recurrent is not None and recurrent < buffered else "decode"


def _measured(artifact: Artifact | None, call: Call) -> float | None:
    """Microseconds of the newest timing on this device at the number of rows nearest to the call's."""
    if artifact is None:
        return None
    name = _describe(call.device).name
    timings = [
        e["result"]
        for e in artifact.manifest["evidence"]
        if e["kind"] == "timing" and e["device"] == name and {"us", "rows"} <= e["result"].keys()
    ]
    if not timings:
        return None
    nearest = min(abs(t["rows"] - call.rows) for t in timings)
    return float([t["us"] for t in timings if abs(t["rows"] - call.rows) == nearest][-1])


# --- the chain


def _call(device: torch.device | str, batch: int, key: Mapping[str, Any]) -> Call:
    return Call(kernel_spec(**key), device_of(device), whole(batch, "batch"), key.get("heads") or (1, 1))


def _search(call: Call, strict: bool, rows: int | None = None) -> _Found:
    """The first artifact of the chain that may run on the device. ``rows``: looked up instead of the call's own."""
    spec, rows = call.spec, call.rows if rows is None else rows
    machine = _describe(call.device)
    reasons: list[str] = []
    pinned = _pins.get(spec.name)
    if pinned is not None:
        reason = fits(pinned.manifest, machine)
        if reason is None:
            return _Found(pinned, "pinned", reasons)
        reasons.append(f"the pinned {pinned.folder}: {reason}")
    override = policy().override(spec, rows)
    if override is not None and override.artifact is None:
        return _Found(None, f"the policy file {policy().path} asks for the reference", reasons)
    candidates = _choices(spec, machine, rows, strict, reasons)
    if override is not None and override.artifact is not None:
        candidates.insert(0, Candidate(override.artifact, None, f"the policy file {policy().path} says so"))
    for candidate, artifact in _usable(spec, machine, candidates, reasons):
        return _Found(artifact, candidate.why, reasons)
    return _Found(None, "", reasons)


def chosen(spec: KernelSpec, machine: Device, rows: int, reasons: list[str]) -> Candidate | None:
    """What the indexes of the search path choose for so many value-head rows of ``spec`` on a machine that need not be
    here, pins and the policy file aside; ``reasons`` gets what speaks against better choices."""
    candidates = _choices(spec, machine, rows, False, reasons)
    return next((candidate for candidate, _ in _usable(spec, machine, candidates, reasons)), None)


def _usable(
    spec: KernelSpec, machine: Device, candidates: Iterable[Candidate], reasons: list[str]
) -> Iterator[tuple[Candidate, Artifact]]:
    """Those whose artifact is whole, a kernel of ``spec``, and may run on the machine."""
    for candidate in candidates:
        try:
            artifact = read_artifact(candidate.folder, candidate.digest)
            _check_is(spec, artifact)
        except ArtifactError as error:
            reasons.append(str(error))
            continue
        reason = fits(artifact.manifest, machine)
        if reason is None:
            yield candidate, artifact
        else:
            reasons.append(f"{candidate.folder}: {reason}")


def _choices(spec: KernelSpec, machine: Device, rows: int, strict: bool, reasons: list[str]) -> list[Candidate]:
    """What indexes choose for this key and architecture, best first: tuned for this device, for another one, never
    tuned; of these the bucket of ``rows`` or the nearest; of these the first folder of the search path."""
    folders = [caches.shipped_folder()] if strict else caches.search_path()
    key = spec.key()
    found = []
    for place, folder in enumerate(folders):
        try:
            index = _index(folder, _stamp(folder))
        except ArtifactError as error:
            reasons.append(str(error))
            continue
        for choice in index.choices:
            is_for = {name: value for name, value in choice.key.items() if name != "space"}
            if choice.stale or choice.capability != machine.capability or is_for != key:
                continue
            untuned = choice.default and not choice.device
            level = TUNED if choice.device == machine.name else UNTUNED if untuned else RELATED
            distance = _distance(choice, rows)
            why = f"{_origin(choice, level)}{', the nearest bucket' if distance else ''}, in {folder}"
            digest = index.artifacts[choice.artifact]
            candidate = Candidate(folder / choice.artifact, digest, why, level, distance)
            found.append(((level, distance, place, choice.artifact), candidate))
    return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]


def _distance(choice: Choice, rows: int) -> int:
    """How far ``rows`` is from the rows that the choice was made for; 0 inside."""
    lo, hi = choice.rows
    return max(lo - rows, 0 if hi is None else rows - hi, 0)


def _origin(choice: Choice, level: int) -> str:
    lo, hi = choice.rows
    span = f"{lo} to {hi} value-head rows" if hi is not None else f"{lo} value-head rows and more"
    if level == UNTUNED:
        return f"the default schedule, never tuned, for {span}"
    who = "this device" if level == TUNED else f"{choice.device or choice.capability}, of the same architecture"
    return f"tuned for {who}, for {span}"


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
    key, given = spec.key(), artifact.key
    for name in {**key, **given}:
        if key.get(name) != given.get(name):
            raise ArtifactError(
                f"{artifact.folder} is a kernel with {name}={given.get(name)!r}; needed: {name}={key.get(name)!r}"
            )


def portable_kernel(call: Call, reasons: list[str]) -> TritonKernel | None:
    """The portable kernel that serves the call, ready to be captured, or None; ``reasons``: against what was refused.

    Triton that is not installed is no reason: this step of the chain is then absent.
    """
    for path, digest in _portable_files(call):
        try:
            kernel = TritonKernel(call.spec, path, digest, call.device)
            kernel.prepare(call.device.index if call.device.index is not None else torch.cuda.current_device())
        except (ArtifactError, KernelError) as error:
            reasons.append(str(error))
        else:
            return kernel
    return None


def _portable_files(call: Call) -> list[tuple[Path, str]]:
    """Listed files that hold the call's kernel, with their digests, those of the first folder to be searched first."""
    if call.device.type != "cuda" or not available() or portable.refusal(call.spec):
        return []
    file, found = portable.source_file(call.spec), []
    for folder in caches.search_path():
        with contextlib.suppress(ArtifactError):  # a reason already, since choices were looked for in it
            index = _index(folder, _stamp(folder))
            found += [(folder / file, index.portable[file])] if file in index.portable else []
    return found


def _where(device: torch.device) -> str:
    return f"cuda:{torch.cuda.current_device()}" if str(device) == "cuda" else str(device)


def _load(artifact: Artifact, device: torch.device) -> str:
    name = f"{artifact.name}@{artifact.digest[:16]}:{_where(device)}"
    return name if name in _loaded else _register(name, load_artifact(artifact, device))


def _register(name: str, kernel: Callable[..., None]) -> str:
    _loaded[name] = kernel
    return ops.register(name, kernel)


# --- what is said


def _warn(key: str, text: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(text, FallbackWarning, stacklevel=_callers())


def _callers() -> int:
    """The stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kvbuffer_codegen."):
        level, frame = level + 1, frame.f_back
    return level


def _missing(call: Call, found: _Found) -> str:
    spec = call.spec
    key = spec.key()
    fields = (
        ("K", "V", "ratio", "io", "state", "layout", "buffer", "window", "kv_only", "tree") if spec.recurrence else ()
    )
    what = ", ".join(f"{name}={key[name]}" for name in fields if key.get(name))
    refused = f" Refused: {'; '.join(found.reasons)}." if found.reasons else ""
    return (
        f"No {spec.form} kernel for {key['recurrence']} on {call.device.type}{f' ({what})' if what else ''}.{refused} "
        f"Make it with: {tune_command(call)}"
    )


def tune_command(call: Call) -> str:
    """The command line that makes the kernel of ``call``."""
    spec, parts = call.spec, ["kvbuffer-codegen tune"]
    if spec.recurrence:
        name = spec.recurrence.name
        parts += [name if name in RECURRENCES else f"FILE.py:{name}", f"--heads {call.heads[0]},{call.heads[1]}"]
        parts += [f"--dims {spec.K},{spec.V} --io {spec.io} --state {spec.state} --layout {spec.layout}"]
        parts += [f"--rounding {spec.rounding}"] if spec.stochastic else []
        parts += [f"--records {spec.records}"] if spec.records != "exact" else []
        parts += [f"--buffer {spec.buffer}"]
        parts += [f"--window {spec.window}"] if spec.window else []
        parts += [f"--kv-only {spec.kv_only}"] if spec.kv_only else []
    parts += [f"--form {spec.form}{'_tree' * spec.tree} --batch {max(call.batch, 1)}"]
    return " ".join([*parts, *(["--target cpu"] if call.device.type == "cpu" else [])])


@functools.lru_cache(maxsize=32)
def _describe(device: torch.device) -> Device:
    return describe(device)
