"""A recurrence of the user's own, in a file outside the package: every command takes it, and a Pool runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvbuffer_codegen import Pool
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.recurrences import load_recurrence

FILE = '''"""Two writes a token with a decay between them, a nonlinear left vector, a gated output."""

from kvbuffer_codegen.ir.language import (
    HeadScalar, Key, Scalar, State, Value, exp, l2norm, outer, recurrence, sigmoid, silu, softplus, tanh, width,
)


@recurrence
def two_speeds(S: State, q: Key, k: Key[2], v: Value, z: Value, a: Scalar, A_log: HeadScalar):
    slow, fast = l2norm(k[0]), l2norm(k[1])
    erased = S @ fast
    S = S + outer(tanh(v - S @ slow), slow)
    S = exp(-exp(A_log) * softplus(a)) * S
    S = S - outer(0.5 * erased, fast)
    return S, silu(z) * (S @ (q * width(q) ** -0.5)) + 0.1 * v


@recurrence
def mamba1(S: State, q: Key, k: Key, v: Value, dt: Value):
    S = exp(outer(-softplus(dt), k)) * S
    return S + outer(v, k), S @ q
'''
NAME, OUTSIDE = "mine.py:two_speeds", "mine.py:mamba1"
SIZES = ["--heads", "2,4", "--dims", "32,16", "--io", "float32", "--buffer", "4"]
ON_CPU = ["--window", "3", "--target", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with the file, and ``kernels`` built from it there."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "mine.py").write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["build", NAME, *SIZES, *ON_CPU, "--out", "kernels"]) == 0
    return folder


@pytest.fixture(autouse=True)
def there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KVBUFFER_CODEGEN_PATH", str(folder / "kernels"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_list_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "list", NAME)
    assert [r["name"] for r in found["recurrences"]] == ["two_speeds"]
    assert {a["form"] for a in found["artifacts"]} == {"decode", "step", "verify", "flush", "publish"}
    assert run(capsys, "explain", NAME, *SIZES)["affine"] is False
    assert main(["list", NAME]) == 0
    assert "recurrences  two_speeds" in capsys.readouterr().out


def test_check_takes_its_function_as_the_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "check", NAME, "--path", "kernels")
    assert (found["passed"], found["failed"], found["skipped"]) == (5, 0, 0)
    assert run(capsys, "check", "--path", "kernels")["passed"] == 7  # the cursor kernels too, and no file named
    (step,) = Path("kernels/cpu").glob("kvb_step_*")  # compiles again, so one will do
    assert run(capsys, "check", NAME, "--stale", "--path", str(step))["passed"] == 1
    assert run(capsys, "check", "gated_delta_rule", "--path", "kernels")["artifacts"] == []


def test_check_sees_that_the_file_has_changed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(FILE.replace("0.5 * erased", "0.4 * erased"))
    monkeypatch.chdir(tmp_path)
    found = run(capsys, "check", NAME, "--stale", "--path", str(folder / "kernels"), code=1)
    assert found["failed"] == 5
    assert "not what the tree has" in found["artifacts"][0]["reason"]


def test_tune_and_bench(capsys: pytest.CaptureFixture[str]) -> None:
    what = [NAME, *SIZES, "--target", "cpu", "--form", "step", "--batch", "2"]
    tuned = run(capsys, "tune", *what, "--candidates", "1", "--budget", "30s", "--out", "tuned", "--logs", "logs")
    assert tuned["outcomes"][0]["form"] == "step"
    assert (Path("tuned") / "index.json").exists()
    rows = run(capsys, "bench", *what, "--repeats", "1")["rows"]
    assert rows[0]["kernel"].startswith("kvb_step_two_speeds_")


@pytest.mark.parametrize("command", ["list", "explain", "build", "tune", "check", "bench"])
def test_one_outside_the_class_is_refused_with_the_reason(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, OUTSIDE]) == 2
    said = capsys.readouterr().err
    assert "S = exp(outer(-softplus(dt), k)) * S" in said
    assert "Mamba-1" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.filterwarnings("error")  # what a missing kernel is replaced by is told as a warning
@pytest.mark.parametrize("given", ["name", "recurrence"])
def test_a_pool_decodes_and_verifies_with_its_kernels(given: str) -> None:
    H, HV, K, V, T = 2, 4, 32, 16, 14
    mine = load_recurrence(NAME)
    rng = np.random.default_rng(1)
    shapes = {"q": (H, K), "k": (2, H, K), "v": (HV, V), "z": (HV, V), "a": (HV,)}
    data = {name: rng.standard_normal((T, *shape)).astype(np.float32) for name, shape in shapes.items()}
    A_log = rng.standard_normal(HV).astype(np.float32)
    wanted, states = oracle.run(mine, {**data, "A_log": A_log}, np.zeros((HV, V, K)))
    pool = Pool(
        NAME if given == "name" else mine,
        layers=1, slots=2, heads=(H, HV), dims=(K, V), io=torch.float32, buffer=4, max_window=3, device="cpu",
    )  # fmt: skip
    slot = pool.alloc()
    rows = torch.tensor([slot])

    def inputs(tokens: Any) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(x[tokens])[None] for name, x in data.items()} | {
            "A_log": torch.from_numpy(A_log)
        }

    t, got = 0, []
    for accepted in (3, 1, 0, 2):
        out = pool.verify(0, rows, **inputs(slice(t, t + 3)))
        pool.commit(rows, torch.tensor([accepted]))
        got += list(out[0, :accepted])
        t += accepted
    for token in range(t, T):
        got.append(pool.decode(0, rows, **inputs(token))[0])
        pool.advance(rows)
    pool.check()
    torch.testing.assert_close(torch.stack(got).double(), torch.from_numpy(wanted), rtol=1e-5, atol=1e-5)
    state = pool.materialize(slot)
    torch.testing.assert_close(state[0].double(), torch.from_numpy(states[-1]), rtol=1e-5, atol=1e-5)


def test_a_pool_refuses_one_outside_the_class() -> None:
    with pytest.raises(ValueError, match=r"recurrence='mine.py:mamba1': .*Mamba-1"):
        Pool(OUTSIDE, layers=1, slots=1, heads=(1, 1), dims=(16, 16), device="cpu")
