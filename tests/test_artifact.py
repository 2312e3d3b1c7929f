"""Artifacts: what a manifest may hold, what is refused and why, and that writing is all or nothing."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib.resources
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tiny_kernels import manifest_of, spec_of

from kvbuffer_codegen import artifact as module
from kvbuffer_codegen import trust
from kvbuffer_codegen.artifact import (
    ArtifactError,
    Device,
    add_evidence,
    cpu_device,
    fits,
    read_artifact,
    read_manifest,
    write_artifact,
)
from kvbuffer_codegen.index import Choice, Index, merge, read_index, update_index, write_index
from kvbuffer_codegen.manifest import ManifestError, validate

BINARY, SOURCE = b"\x7fELF binary", b"int main() {}"
FILES = {"kernel.so": BINARY, "kernel.cpp": SOURCE}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_artifact(tmp_path / "cpu" / "kernel", manifest_of(spec_of()), FILES)


def whole(form: str = "decode", kind: str = "cpu") -> dict[str, Any]:
    files = {"kernel.so": "0" * 64} if kind == "cpu" else {"kernel.cubin": "0" * 64, "kernel.cu": "1" * 64}
    return {**manifest_of(spec_of(form), kind), "files": files}


# --- the manifest


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    text = (importlib.resources.files("kvbuffer_codegen") / "manifest.schema.json").read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("form", ["step", "decode", "flush", "verify", "advance", "commit"])
def test_every_form_has_a_manifest(schema: jsonschema.Draft202012Validator, form: str, kind: str) -> None:
    manifest = json.loads(json.dumps(whole(form, kind)))
    validate(manifest)
    schema.validate(manifest)


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set a field, `arguments.0.align`; ... removes it."""

    def change(manifest: Any) -> None:
        *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
        for parent in parents:
            manifest = manifest[parent]
        if value is ...:
            del manifest[last]
        else:
            manifest[last] = value

    return change


SHAPELESS = [  # refused by the schema and by the module
    put("schema", 2),
    put("schema", True),
    put("schema", ...),
    put("more", 1),
    put("name", "kvb decode"),
    put("name", "a" * 101),
    put("form", "prefill"),
    put("recurrence.hash", "AB" * 32),
    put("recurrence.normal_form", ...),
    put("records.0.axis", "H"),
    put("io", "float64"),
    put("state", None),
    put("layout", "KVK"),
    put("dims.K", -1),
    put("dims.K", 16.5),
    put("dims.K", True),
    put("dims.W", 1),
    put("ratio", 0),
    put("buffer", "4"),
    put("target.kind", "rocm"),
    put("target.machine", ...),
    put("target.features", "avx2"),
    put("arguments", []),
    put("arguments.0.role", "weights"),
    put("arguments.0.align", 0),
    put("arguments.0.align", 12),
    put("arguments.0.shape", []),
    put("arguments.0.free_strides", [-1]),
    put("arguments.0.more", 1),
    put("launch.entry", "entry()"),
    put("launch.grid", []),
    put("launch.grid", [1, 1, 1, 1]),
    put("launch.shared", -1),
    put("launch.arguments.0", {"pointer": "state", "dtype": "int32"}),
    put("launch.arguments.0", {"integer": "B"}),
    put("launch.arguments.0", {"integer": "B", "dtype": "int16"}),
    put("compiler", {"gcc": 12}),
    put("resources", {"registers": -1}),
    put("files", {}),
    put("files", {"../kernel.so": "0" * 64}),
    put("files", {".hidden.so": "0" * 64}),
    put("files", {"a/kernel.so": "0" * 64}),
    put("files", {"kernel.so": "0" * 63}),
    put("evidence", [{"kind": "check"}]),
    put("evidence", {}),
]
INCONSISTENT = [  # what a schema cannot say
    put("launch.grid", ["B +"]),
    put("launch.grid", ["__import__('os')"]),
    put("launch.block", ["Q"]),
    put("launch.arguments.1", {"integer": "state_s9", "dtype": "int64"}),
    put("launch.arguments.0", {"pointer": "stat"}),
    put("arguments.0.name", "out"),
    put("arguments.0.free_strides", [4]),
    put("arguments.0.shape", ["P", "HV", 16, "9" * 30]),
    put("files", {"kernel.cubin": "0" * 64}),
    put("files", {"a.so": "0" * 64, "b.so": "0" * 64}),
]


@pytest.mark.parametrize("change", [*SHAPELESS, *INCONSISTENT])
def test_bad_manifests(schema: jsonschema.Draft202012Validator, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = copy.deepcopy(whole())
    change(manifest)
    with pytest.raises(ManifestError, match=r"^manifest field .*: .*; accepted: ") as caught:
        validate(manifest)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    if change in SHAPELESS:
        assert not schema.is_valid(manifest)


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_not_a_manifest_at_all(value: Any) -> None:
    with pytest.raises(ManifestError, match="accepted: an object"):
        validate(value)


# --- reading and writing


def test_round_trip(folder: Path) -> None:
    read = read_artifact(folder)
    assert read.files == FILES
    assert read.key == spec_of().key()
    assert (read.binary, read.name) == (BINARY, read.manifest["name"])
    assert read.manifest["files"] == {n: hashlib.sha256(data).hexdigest() for n, data in FILES.items()}
    assert read.digest == hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert read_manifest(folder) == read.manifest
    assert read_artifact(folder, read.digest).digest == read.digest
    assert sorted(p.name for p in folder.parent.iterdir()) == ["kernel"]
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o022 == 0


def test_writing_again_replaces(folder: Path) -> None:
    write_artifact(folder, manifest_of(spec_of("flush")), {"kernel.so": b"other"})
    read = read_artifact(folder)
    assert (read.manifest["form"], read.files) == ("flush", {"kernel.so": b"other"})
    assert sorted(p.name for p in folder.parent.iterdir()) == ["kernel"]


def test_a_bad_manifest_writes_nothing(tmp_path: Path, folder: Path) -> None:
    before = read_artifact(folder)
    with pytest.raises(ManifestError, match="ratio"):
        write_artifact(folder, {**manifest_of(spec_of()), "ratio": 0}, FILES)
    with pytest.raises(ManifestError, match="files name"):
        write_artifact(tmp_path / "new" / "k", manifest_of(spec_of()), {**FILES, "../up": b""})
    assert read_artifact(folder) == before
    assert not (tmp_path / "new").exists()


def test_a_failed_write_leaves_the_old_artifact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_artifact(folder)

    def fail(path: Path, data: bytes) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_file", fail)
    with pytest.raises(OSError, match="disk full"):
        write_artifact(folder, manifest_of(spec_of()), {"kernel.so": b"new"})
    assert read_artifact(folder) == before
    assert sorted(p.name for p in folder.parent.iterdir()) == ["kernel"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "kernel.so").write_bytes(BINARY + b"!"), "kernel.so has sha256 .*, the manifest lists"),
        (lambda f: (f / "kernel.cpp").unlink(), "kernel.cpp is missing"),
        (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json is not JSON"),
        (lambda f: (f / "manifest.json").write_text("[" * 100_000), "manifest.json is not JSON"),
        (lambda f: (f / "manifest.json").write_text('{"schema": NaN}'), "NaN is not a number of JSON"),
        (lambda f: (f / "manifest.json").write_text('{"schema": 1, "schema": 1}'), "a field that is there twice"),
        (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\xfa"), "manifest.json is not JSON"),
        (lambda f: (f / "manifest.json").write_text('{"schema": 7}'), "manifest field schema: 7; accepted: 1"),
        (lambda f: relinked(f / "kernel.so"), "kernel.so cannot be read: .*links are not followed"),
        (lambda f: piped(f / "kernel.so"), "kernel.so is not a plain file"),
        (lambda f: (f / "kernel.so").chmod(0o646), "kernel.so is writable by everybody .mode 646.: use chmod o-w"),
        (lambda f: f.chmod(0o777), "kernel is writable by everybody .mode 777.: use chmod o-w"),
    ],
)
def test_damage_is_refused(folder: Path, damage: Callable[[Path], Any], message: str) -> None:
    damage(folder)
    with pytest.raises(ArtifactError, match=message) as caught:
        read_artifact(folder)
    assert "\n" not in str(caught.value)


def relinked(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere.so")
    path.symlink_to(path.parent.parent / "elsewhere.so")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_paths_that_escape_are_refused(folder: Path) -> None:
    data = json.loads((folder / "manifest.json").read_text())
    data["files"]["../../outside"] = data["files"].pop("kernel.cpp")
    (folder / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match=r"files name: '../../outside'; accepted: a plain file name"):
        read_artifact(folder)


def test_another_digest_than_the_index_lists(folder: Path) -> None:
    with pytest.raises(ArtifactError, match="the index lists " + "0" * 64):
        read_artifact(folder, "0" * 64)


def test_whose_files_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reason(uid: int, gid: int, mode: int) -> str | None:
        status = os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))
        return trust.distrust(tmp_path, status)

    users = {0: ("root", 0), 1000: ("ann", 1000), 1001: ("bob", 100)}
    groups = {0: ("root", []), 1000: ("ann", []), 100: ("users", [])}

    def user(uid: int) -> Any:
        name, gid = users[uid]
        return type("User", (), {"pw_name": name, "pw_gid": gid})

    def group(gid: int) -> Any:
        name, members = groups[gid]
        return type("Group", (), {"gr_name": name, "gr_gid": gid, "gr_mem": members})

    monkeypatch.setattr(trust.pwd, "getpwuid", user)
    monkeypatch.setattr(trust.grp, "getgrgid", group)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert reason(1000, 1000, 0o644) is reason(0, 0, 0o755) is None
    assert reason(1000, 1000, 0o664) is None  # the user's private group
    assert "writable by its group (mode 664): use chmod g-w" in str(reason(1000, 100, 0o664))
    assert "owned by user bob; accepted are user ann and root: copy it or use chown" in str(reason(1001, 100, 0o644))
    assert "owned by user 7;" in str(reason(7, 100, 0o644))
    groups[1000] = ("ann", ["bob"])
    assert "writable by its group" in str(reason(1000, 1000, 0o664))
    assert "writable by everybody" in str(reason(1000, 1000, 0o602))


# --- devices


def test_fits() -> None:
    cuda, cpu = whole(kind="cuda"), whole()
    hopper = Device("cuda", "9.0", 13000)
    assert fits(cuda, hopper) is None
    assert fits(cuda, Device("cuda", "10.0", 13000)) == "built for compute capability 9.0, the device has 10.0"
    assert "needs a driver for CUDA 12.0, installed is one for 11.8" in str(fits(cuda, Device("cuda", "9.0", 11080)))
    assert fits(cpu, hopper) == "built for cpu, the device is cuda"
    machine = cpu["target"]["machine"]
    cpu["target"]["features"] = ["avx2", "avx512f"]
    assert fits(cpu, Device("cpu", machine, features=frozenset({"avx2", "avx512f", "fma"}))) is None
    assert fits(cpu, Device("cpu", machine, features=frozenset({"avx2"}))) == (
        "needs the CPU features avx512f, which this CPU has not"
    )
    assert fits(cpu, Device("cpu", "riscv64")) == f"built for {machine}, this machine is riscv64"


def test_this_cpu() -> None:
    device = cpu_device()
    assert device.capability == os.uname().machine
    assert device.features & {"sse2", "asimd"}
    assert not device.features & {"fpu", "tsc", "hypervisor"}
    assert fits(whole(), device) is None


# --- evidence and the index


def test_evidence(folder: Path) -> None:
    digest = add_evidence(folder, "check", device="H200", driver="580.1", result={"error": 1e-7}, date="2026-01-31")
    again = add_evidence(folder, "timing", device="H200", driver="580.1", result={"microseconds": 3.5})
    assert digest != again
    read = read_artifact(folder, again)
    first, second = read.manifest["evidence"]
    assert first == {
        "kind": "check",
        "binary": hashlib.sha256(BINARY).hexdigest(),
        "device": "H200",
        "driver": "580.1",
        "date": "2026-01-31",
        "result": {"error": 1e-7},
    }
    assert second["date"].endswith("+00:00")
    for bad in ({"date": "yesterday"}, {"result": {"error": float("nan")}}):
        with pytest.raises(ValueError, match=r"accepted: an ISO date|JSON compliant"):
            add_evidence(folder, "check", **{"device": "", "driver": "", "result": {}, **bad})
    with pytest.raises(ManifestError, match=r"evidence.kind: 'proof'; accepted: check, timing"):
        add_evidence(folder, "proof", device="", driver="", result={})
    assert read_artifact(folder).digest == again


KEY = {"form": "decode", "K": 128}


def test_index_round_trip(tmp_path: Path) -> None:
    assert read_index(tmp_path) == Index()
    index = Index(
        {"sm_90a/a": "a" * 64, "sm_90a/b": "b" * 64},
        (
            Choice(KEY, (0, 255), "9.0", "sm_90a/a", default=True),
            Choice(KEY, (256, None), "9.0", "sm_90a/b", device="NVIDIA H200"),
        ),
    )
    path = write_index(tmp_path, index)
    assert read_index(tmp_path) == dataclasses.replace(index, choices=read_index(tmp_path).choices)
    assert set(map(str, read_index(tmp_path).choices)) == set(map(str, index.choices))
    before = path.read_bytes()
    write_index(tmp_path, Index(dict(reversed(index.artifacts.items())), index.choices[::-1]))
    assert path.read_bytes() == before


def test_merge_keeps_the_later() -> None:
    old = Index(
        {"x/a": "a" * 64}, (Choice(KEY, (0, 9), "9.0", "x/a", default=True), Choice(KEY, (10, 19), "9.0", "x/a"))
    )
    new = Index({"x/a": "c" * 64, "x/b": "b" * 64}, (Choice(KEY, (0, 9), "9.0", "x/b"),))
    merged = merge(old, new)
    assert merged.artifacts == {"x/a": "c" * 64, "x/b": "b" * 64}
    assert sorted((c.rows, c.artifact, c.default) for c in merged.choices) == [
        ((0, 9), "x/b", False),
        ((10, 19), "x/a", False),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("schema", 2), "schema 2; accepted: 1"),
        (put("artifacts.0.folder", "../up"), "artifact folder '../up'; accepted: a plain path below the index"),
        (put("artifacts.0.folder", "/etc"), "a plain path below the index"),
        (put("artifacts.0.folder", "x/a\0"), "a plain path below the index"),
        (put("artifacts.0.folder", "x/\ud800"), "a plain path below the index"),
        (put("artifacts.0.manifest", "A" * 64), "accepted: a sha256"),
        (put("choices.0.rows", [5, 4]), r"rows \[5, 4\]; accepted"),
        (put("choices.0.artifact", "x/c"), "choice of 'x/c', which is not among the artifacts"),
        (put("choices.0.key", "decode"), "an object as key"),
        (put("choices", ...), "choices"),
    ],
)
def test_bad_index(tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    path = write_index(tmp_path, Index({"x/a": "a" * 64}, (Choice(KEY, (0, None), "9.0", "x/a"),)))
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match=message):
        read_index(tmp_path)


def _write(folder: Path, number: int) -> None:
    for i in range(20):
        write_artifact(folder, manifest_of(spec_of()), {"kernel.so": f"{number} {i}".encode()})


def _add(folder: Path, number: int) -> None:
    for i in range(10):
        update_index(folder, {f"x/{number}-{i}": f"{number:064x}"})


def run_together(target: Callable[[Path, int], None], folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=(folder, n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_artifacts_written_by_many_processes_are_whole(tmp_path: Path) -> None:
    run_together(_write, tmp_path / "kernel")
    assert read_artifact(tmp_path / "kernel").binary.endswith(b" 19")
    assert [p.name for p in tmp_path.iterdir()] == ["kernel"]


def test_updates_from_many_processes_are_all_kept(tmp_path: Path) -> None:
    run_together(_add, tmp_path)
    assert len(read_index(tmp_path).artifacts) == 30
    assert [p.name for p in tmp_path.iterdir()] == ["index.json"]


def test_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import kvbuffer_codegen.index; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "print(sorted(new - {'kvbuffer_codegen'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
