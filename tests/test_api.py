"""docs/api.md lists the public names; this holds it against the code, in both directions."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kvbuffer_codegen
from kvbuffer_codegen.runtime import Pool

TEXT = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
SECTIONS = dict(re.findall(r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", TEXT, re.S | re.M))


def names(title: str) -> list[str]:
    """The names in the first column of a section's table."""
    cells = re.findall(r"^\| (`[^|]+) \|", SECTIONS[title], re.M)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


POOL = next(title for title in SECTIONS if title.startswith("Pool("))


def test_the_package_and_its_list() -> None:
    assert sorted(names("kvbuffer_codegen")) == sorted(kvbuffer_codegen.__all__)


@pytest.mark.parametrize("module", ["kvbuffer_codegen", "kvbuffer_codegen.runtime", "kvbuffer_codegen.dispatcher"])
def test_every_name_is_there_and_documented(module: str) -> None:
    home = kvbuffer_codegen.dispatcher if module.endswith("dispatcher") else importlib.import_module(module)
    for name in names(module):
        value = getattr(home, name)
        assert name == "__version__" or inspect.getdoc(value), name


def test_the_runtime_lists_what_it_exports() -> None:
    runtime = importlib.import_module("kvbuffer_codegen.runtime")
    elsewhere = {"Pool", "dispatcher", "load_kernel"}
    assert sorted(names("kvbuffer_codegen.runtime")) == sorted(set(runtime.__all__) - elsewhere)


def test_the_pool() -> None:
    public = {name for name in vars(Pool) if not name.startswith("_")}
    assert sorted(names(POOL)) == sorted(public)
    for name in public:
        assert inspect.getdoc(getattr(Pool, name)), name
    parameters = list(inspect.signature(Pool).parameters)
    assert re.findall(r"\w+", POOL.split("(", 1)[1]) == parameters


def test_the_pool_has_the_attributes_that_are_listed() -> None:
    made = Pool("gated_delta_rule", layers=1, slots=1, heads=(1, 1), dims=(4, 4), io="float32", device="cpu")
    listed = re.findall(r"`(\w+)`", SECTIONS[POOL].split("Attributes:")[1])
    assert sorted(listed) == sorted(name for name in vars(made) if not name.startswith("_"))


def test_the_integration() -> None:
    pytest.importorskip("transformers")
    module = importlib.import_module("kvbuffer_codegen.integrations.transformers")
    for name in names("kvbuffer_codegen.integrations.transformers"):
        assert inspect.getdoc(getattr(module, name))


def test_the_runtime_imports_with_every_compiler_blocked(tmp_path: Path) -> None:
    """It decodes, too: on the torch reference, in a process in which no compiler can be imported."""
    program = """
import sys, warnings
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tilelang", "triton", "tvm", "transformers", "ray"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
import torch
from kvbuffer_codegen import Pool, dispatcher, load_kernel, recurrence
pool = Pool("gated_delta_rule", layers=1, slots=1, heads=(1, 1), dims=(4, 4), io="float32", device="cpu")
x = {name: torch.ones(1, 1, 4) for name in "qkv"} | {name: torch.ones(1, 1) for name in "ab"}
warnings.simplefilter("ignore")
out = pool.decode(0, torch.tensor([pool.alloc()]), **x, A_log=torch.zeros(1), dt_bias=torch.zeros(1))
assert out.abs().sum() > 0
pool.advance(torch.tensor([0]))
assert not {"kvbuffer_codegen.schedules", "kvbuffer_codegen.compiler"} & set(sys.modules), "compiler code was imported"
assert "torch._dynamo" not in sys.modules, "that takes seconds"
"""
    environment = {"KVBUFFER_CODEGEN_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
