"""Portable kernels as files: what is written and listed, and what ``list`` and ``check`` make of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen.artifact import ArtifactError
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.compiler.portable import add_portable, add_portable_cursors, read_portable
from kvbuffer_codegen.index import read_index, update_index
from kvbuffer_codegen.ir.forms import cursor_spec
from kvbuffer_codegen.ir.portable import source_file, variants
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.runtime.triton_kernels import checked

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "generated"
MINE = """
from kvbuffer_codegen.ir.language import Key, Scalar, State, Value, exp, outer, recurrence, softplus

@recurrence
def mine(S: State, q: Key, k: Key, v: Value, g: Scalar):
    S = exp(-softplus(g)) * S
    S = S + outer(v, k)
    return S, S @ q
"""


@pytest.fixture
def out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the portable kernels of a user's recurrence."""
    (tmp_path / "my.py").write_text(MINE)
    folder = tmp_path / "out"
    assert main(["build", f"{tmp_path / 'my.py'}:mine", "--target", "triton", "--out", str(folder)]) == 0
    capsys.readouterr()
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_build_lists_every_file_with_its_digest(out: Path) -> None:
    listed = read_index(out).portable
    assert {str(p.relative_to(out)) for p in out.rglob("*.py")} == set(listed)
    assert len(listed) == 2  # 16-bit inputs and float32
    for file, digest in listed.items():
        assert read_portable(out / file, digest).recurrence


def test_list_and_check_know_them(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run_json(capsys, "list", "--path", str(out))["portable"]) == 2
    kinds = run_json(capsys, "check", "--path", str(out))
    assert kinds["failed"] == 0
    assert kinds["passed"] + kinds["skipped"] == 2  # where there is no GPU they cannot run, and are counted
    assert run_json(capsys, "check", "--path", str(out), "--stale")["passed"] == 2


def test_check_finds_a_file_that_was_changed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = out / next(iter(read_index(out).portable))
    file.write_text(file.read_text().replace("total +=", "total -="))
    found = run_json(capsys, "check", "--path", str(out), "--stale", code=1)
    (reason,) = [a["reason"] for a in found["artifacts"] if a["status"] == "failed"]
    assert "the index lists" in reason


def test_check_stale_finds_what_the_tree_does_not_emit(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is as listed, and not what its normal form gives."""
    file = next(iter(read_index(out).portable))
    text = (out / file).read_text().replace("# the newest record first", "# the oldest")
    (out / file).write_text(text)
    update_index(out, portable={file: hashlib.sha256(text.encode()).hexdigest()})
    found = run_json(capsys, "check", "--path", str(out), "--stale", code=1)
    (reason,) = [a["reason"] for a in found["artifacts"] if a["status"] == "failed"]
    assert reason == "its source is not what the tree emits: build it again"


def test_what_ships_is_every_recurrence() -> None:
    listed = read_index(GENERATED).portable
    wanted = {source_file(s) for r in RECURRENCES.values() for s in variants(r.normal_form).values()}
    wanted.add(source_file(cursor_spec("advance")))
    assert set(listed) == wanted == {f"triton/{p.name}" for p in (GENERATED / "triton").iterdir() if p.is_file()}
    name = source_file(next(iter(variants(gated_delta_rule.normal_form).values())))
    assert checked(GENERATED / name, listed[name])


def test_the_cursors_have_a_file_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = add_portable_cursors(tmp_path)
    assert read_portable(tmp_path / file, read_index(tmp_path).portable[file]) == cursor_spec("advance")
    assert run_json(capsys, "check", "--path", str(tmp_path), "--stale")["passed"] == 1


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gated_delta_rule_00000000.py"
    for text in ("", "import os\n", "# made of: {}\n"):
        file.write_text(text)
        with pytest.raises(ArtifactError, match="build it again"):
            read_portable(file, hashlib.sha256(text.encode()).hexdigest())


def test_building_twice_writes_the_same(out: Path, tmp_path: Path) -> None:
    add_portable(gated_delta_rule.normal_form, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    add_portable(gated_delta_rule.normal_form, tmp_path / "two")
    for file in (p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_emit_prints_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "kda", "--form", "decode", "--emit", "triton"]) == 0
    text = capsys.readouterr().out
    assert "@triton.jit" in text
    compile(text, "kda.py", "exec")


def test_emitting_needs_neither_triton_nor_tilelang() -> None:
    code = """
import sys
sys.modules.update({"triton": None, "tilelang": None})
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.schedules import triton
print(len(triton.source(KernelSpec("decode", gated_delta_rule.normal_form, 128, 128, buffer=16))))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
