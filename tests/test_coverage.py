"""``coverage``: what indexes say of keys, buckets and devices that need not be here. The kernel is one that ships."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune.install import BUCKETS
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.index import SPACE, Choice, read_index, update_index
from kvbuffer_codegen.ir.forms import cursor_spec

ASKED = ["--target", "sm_90a", "--form", "advance"]
SPEC = cursor_spec("advance")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one kernel, the only one that is searched."""
    shipped = caches.shipped_folder()
    relative = next(name for name in read_index(shipped).artifacts if f"/{SPEC.name}-" in name)
    shutil.copytree(shipped / relative, tmp_path / "shelf" / "kernel")
    monkeypatch.setenv(caches.PATH_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(caches.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(caches, "shipped_folder", lambda: tmp_path / "nothing")
    return tmp_path / "shelf"


def choose(shelf: Path, rows: tuple[int, int | None], device: str, **more: Any) -> None:
    choice = Choice({**SPEC.key(), "space": SPACE}, rows, "9.0", "kernel", device, **more)
    update_index(shelf, {"kernel": read_artifact(shelf / "kernel").digest}, [choice])


def coverage(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["coverage", *ASKED, *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def statuses(found: dict[str, Any]) -> dict[int, str]:
    return {key["rows"][0]: key["status"] for key in found["keys"]}


def test_every_bucket_is_missing_until_something_is_there(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert statuses(coverage(capsys)) == dict.fromkeys(BUCKETS, "missing")
    choose(shelf, (0, None), "", default=True)
    found = coverage(capsys)
    assert statuses(found) == dict.fromkeys(BUCKETS, "untuned")
    assert found["untuned"] == len(BUCKETS)
    assert "never tuned" in found["keys"][0]["why"]


def test_tuned_and_inherited_from_a_bucket_or_a_device(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choose(shelf, (0, None), "", default=True)
    choose(shelf, (256, 1023), "NVIDIA H200")
    found = coverage(capsys)
    assert found["devices"] == ["NVIDIA H200"]  # what anything was tuned for, where none is here and none is named
    assert statuses(found) == {**dict.fromkeys(BUCKETS, "inherited"), 256: "tuned"}
    assert "the nearest bucket" in found["keys"][0]["why"]
    other = coverage(capsys, "--device", "NVIDIA H100")
    assert statuses(other) == dict.fromkeys(BUCKETS, "inherited")
    assert "tuned for NVIDIA H200, of the same architecture" in other["keys"][3]["why"]
    choose(shelf, (256, 1023), "NVIDIA H200", default=True)  # measured, and nothing beat the default
    assert statuses(coverage(capsys))[256] == "tuned"


def test_sizes_are_batches_of_every_shard_or_rows(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choose(shelf, (16, 63), "NVIDIA H200")
    batches = coverage(capsys, "--model", "qwen3-next", "--tp", "1,4", "--batch", "1,64")
    assert statuses(batches) == {0: "inherited", 16: "tuned", 256: "inherited", 1024: "inherited"}
    assert statuses(coverage(capsys, "--rows", "32,33,8192")) == {16: "tuned", 4096: "inherited"}
    assert main(["coverage", *ASKED, "--rows", "32"]) == 0
    text = capsys.readouterr().out
    assert "16-63" in text
    assert "sm_90a, NVIDIA H200: 1 tuned, 0 inherited, 0 untuned, 0 missing" in text


def test_a_damaged_kernel_covers_nothing_and_another_key_is_missing(
    shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(shelf, (0, None), "NVIDIA H200")
    assert coverage(capsys, "--rows", "16", "--form", "advance,commit")["missing"] == 1
    next((shelf / "kernel").glob("*.cubin")).write_bytes(b"damaged")
    (key,) = coverage(capsys, "--rows", "16")["keys"]
    assert key["status"] == "missing"
    assert "sha256" in key["why"]
    assert main(["coverage", "--target", "sm_1"]) == 2
    assert "accepted: cpu" in capsys.readouterr().err
