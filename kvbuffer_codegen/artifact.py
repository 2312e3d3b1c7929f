"""Artifacts: one folder per kernel with `manifest.json`, the binary, and the source it was built from
(docs/artifacts.md).

Standard library only, so that a loader, a tuner on another machine and a release script can share it. Hashes detect
damage, not malice: whoever may write an artifact's folder may run code as its user, so a folder that others can write
is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.manifest import BINARY_SUFFIX, EVIDENCE, SCHEMA, Manifest, ManifestError, validate
from kvbuffer_codegen.trust import distrust

__all__ = [
    "MANIFEST",
    "SCHEMA",
    "Artifact",
    "ArtifactError",
    "Device",
    "add_evidence",
    "cpu_device",
    "evidence",
    "fits",
    "now",
    "read_artifact",
    "read_file",
    "read_manifest",
    "write_artifact",
    "write_file",
]

MANIFEST = "manifest.json"
MAX_FILE_BYTES = 256 * 2**20

#: Flags of /proc/cpuinfo that a compiler may have used instructions of (x86-64 and aarch64).
_ISA_FLAG = re.compile(
    r"(sse|ssse|avx|fma|f16c|bmi|amx|popcnt|movbe|abm|adx|gfni|vaes|vpclmul|aes$|sha|rdrnd|rdseed|pni$|cx16|lahf|"
    r"asimd|fp(hp)?$|sve|sme|i8mm|bf16|atomics|crc32)"
)


class ArtifactError(ValueError):
    """An artifact that must not or cannot be used: one line with the reason."""


@dataclass(frozen=True)
class Artifact:
    """A validated artifact in memory: ``files`` holds the very bytes that were hashed; ``digest`` is the sha256 of
    manifest.json."""

    folder: Path
    manifest: Manifest
    digest: str
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def key(self) -> dict[str, Any]:
        """What the binary is specialised for, as ``KernelSpec.key()`` says it."""
        m, recurrence = self.manifest, self.manifest["recurrence"]
        key = {name: m[name] for name in ("form", "ratio", "io", "state", "layout", "buffer", "window", "kv_only")}
        key |= {
            "recurrence": recurrence["name"] if recurrence else "cursors",
            "records": m["records_mode"],
            **m["dims"],
        }
        key |= {"rounding": m["rounding"]} if m.get("rounding", "nearest") != "nearest" else {}
        key |= {"tree": True} if "tree" in m else {}
        return key | {"recurrence_hash": recurrence["hash"] if recurrence else ""}

    @property
    def binary(self) -> bytes:
        return self.files[binary_name(self.manifest)]


@dataclass(frozen=True)
class Device:
    """What a kernel is to run on.

    ``capability``: "9.0" for CUDA, the machine ("x86_64") for a CPU. ``driver``: the CUDA version that the driver
    supports as ``cuDriverGetVersion`` gives it (12040 for 12.4), 0 for a CPU. ``features``: the CPU's flags in
    /proc/cpuinfo.
    """

    kind: str
    capability: str
    driver: int = 0
    features: frozenset[str] = frozenset()
    name: str = ""


def write_artifact(folder: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Path:
    """Write ``folder`` with ``files`` and the manifest, whose ``files`` field is filled in here; returns ``folder``.

    All is written under a temporary name, the manifest last, and renamed: a reader sees the old artifact, none, or
    the whole new one. Raises :class:`~kvbuffer_codegen.manifest.ManifestError` before anything is written,
    ``OSError`` where the folder cannot be.
    """
    whole = {**manifest, "files": {name: _sha256(data) for name, data in files.items()}}
    validate(whole)
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent))
    try:
        fresh = work / "fresh"
        fresh.mkdir(mode=0o755)
        for name, data in files.items():
            write_file(fresh / name, data)
        write_file(fresh / MANIFEST, encode(whole))
        _replace(fresh, folder, work / "old")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def read_artifact(folder: Path, digest: str | None = None) -> Artifact:
    """The artifact in ``folder``, validated, with all its files read and hashed.

    ``digest``: the sha256 that its manifest.json must have (an index lists it). Raises :class:`ArtifactError`.
    """
    folder = Path(folder)
    manifest, actual = _read_manifest(folder)
    if digest is not None and actual != digest:
        raise ArtifactError(
            f"{folder / MANIFEST} has sha256 {actual}, the index lists {digest}: build or fetch it again"
        )
    files = {}
    for name, listed in manifest["files"].items():
        data = read_file(folder / name)
        if _sha256(data) != listed:
            raise ArtifactError(
                f"{folder / name} has sha256 {_sha256(data)}, the manifest lists {listed}: build it again"
            )
        files[name] = data
    return Artifact(folder, manifest, actual, files)


def read_manifest(folder: Path) -> Manifest:
    """The validated manifest of ``folder`` alone; its files are neither read nor hashed. Raises
    :class:`ArtifactError`."""
    return _read_manifest(Path(folder))[0]


def binary_name(manifest: Manifest) -> str:
    """The file that holds the kernel."""
    suffix = BINARY_SUFFIX[manifest["target"]["kind"]]
    return next(name for name in manifest["files"] if name.endswith(suffix))


def fits(manifest: Manifest, device: Device) -> str | None:
    """Why the kernel cannot run on ``device``, in one line, or None where it can."""
    target = manifest["target"]
    if target["kind"] != device.kind:
        return f"built for {target['kind']}, the device is {device.kind}"
    if device.kind == "cpu":
        if target["machine"] != device.capability:
            return f"built for {target['machine']}, this machine is {device.capability}"
        missing = sorted(set(target["features"]) - device.features)
        return f"needs the CPU features {', '.join(missing)}, which this CPU has not" if missing else None
    if device.capability not in target["capabilities"]:
        return f"built for compute capability {', '.join(target['capabilities'])}, the device has {device.capability}"
    if device.driver < target["min_driver"]:
        needed, installed = cuda_version(target["min_driver"]), cuda_version(device.driver)
        return f"needs a driver for CUDA {needed}, installed is one for {installed}: update it"
    return None


def cpu_device() -> Device:
    """This machine's CPU, with the flags of /proc/cpuinfo that a compiler may use instructions of."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                fields.setdefault(key.strip().lower(), value.strip())
    except OSError:
        pass  # not Linux, or /proc is not mounted: no features are known, so nothing that needs one is loaded
    flags = fields.get("flags", fields.get("features", "")).split()
    name = fields.get("model name", "") or os.uname().machine
    return Device("cpu", os.uname().machine, features=frozenset(f for f in flags if _ISA_FLAG.match(f)), name=name)


def evidence(
    artifact: Artifact, kind: str, *, device: str, driver: str, result: Mapping[str, Any], date: str = ""
) -> dict[str, Any]:
    """A measurement of the artifact's binary, as its manifest keeps it.

    ``kind``: "check" (result: the largest errors against the oracle) or "timing" (microseconds). ``date``: ISO,
    default now in UTC. Raises :class:`~kvbuffer_codegen.manifest.ManifestError` for a bad entry.
    """
    entry = {
        "kind": kind,
        "binary": _sha256(artifact.binary),
        "device": device,
        "driver": driver,
        "date": date or now(),
        "result": dict(result),
    }
    EVIDENCE(entry, "evidence")
    return entry


def add_evidence(folder: Path, kind: str, **more: Any) -> str:
    """Add :func:`evidence` of the present binary to the manifest in ``folder`` and return the manifest's new digest,
    for the index. Raises :class:`ArtifactError` too."""
    artifact = read_artifact(folder)
    entry = evidence(artifact, kind, **more)
    data = encode({**artifact.manifest, "evidence": [*artifact.manifest["evidence"], entry]})
    write_file(artifact.folder / MANIFEST, data)
    return _sha256(data)


def now() -> str:
    """The date of evidence and log lines: ISO, seconds, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# --- files


def read_file(path: Path) -> bytes:
    """The bytes of a plain file that only the user or root can have written. Raises :class:`ArtifactError`."""
    try:
        reason = distrust(path.parent, path.parent.stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArtifactError(f"{path} is missing") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror} (links are not followed)") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise ArtifactError(f"{path} is not a plain file of at most {MAX_FILE_BYTES} bytes")
        reason = reason or distrust(path, status)
        if reason:
            raise ArtifactError(f"refused: {reason}")
        return file.read()


def write_file(path: Path, data: bytes) -> None:
    """Write or replace ``path`` at once: a reader sees the old bytes or the new."""
    descriptor, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _replace(fresh: Path, folder: Path, old: Path) -> None:
    """Rename the folder ``fresh`` to ``folder``, where another may be, or be put by another process meanwhile."""
    while True:
        try:
            fresh.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            folder.rename(old)


def encode(value: Mapping[str, Any]) -> bytes:
    """JSON that diffs well: fields in the order given, floats as written, no NaN."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def decode(path: Path) -> tuple[Any, str]:
    """The JSON value in ``path`` and the sha256 of its bytes. Raises :class:`ArtifactError`."""
    data = read_file(path)
    try:
        return json.loads(data, parse_constant=_no_constant, object_pairs_hook=_no_duplicates), _sha256(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not JSON: {error}") from None


def _read_manifest(folder: Path) -> tuple[Manifest, str]:
    manifest, digest = decode(folder / MANIFEST)
    try:
        validate(manifest)
    except ManifestError as error:
        raise ArtifactError(f"{folder / MANIFEST}: {error}") from None
    return manifest, digest


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a field that is there twice")
    return result


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def cuda_version(number: int) -> str:
    """``12040`` as "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"
