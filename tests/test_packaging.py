"""The wheel: what git tracks and nothing else, no leaked module, type-checked whole, a runtime without compilers."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = CONFIG["tool"]["setuptools"]["package-dir"]
# What the runtime must live without: the compile chain, and what only other parts of the project use.
BLOCKED = (
    "tilelang",
    "tvm",
    "triton",
    "transformers",
    "rich",
    "kvbuffer_codegen.compiler",
    "kvbuffer_codegen.schedules",
)
# Looking a blocked module up still works, as libraries do to see what is there; importing it fails.
BLOCKER = """
import sys
from importlib.machinery import ModuleSpec
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == b or name.startswith(b + ".") for b in {blocked!r}):
            return ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        raise ImportError(spec.name + " is blocked by this test")
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Blocker())
"""


@dataclass(frozen=True)
class Built:
    """What .ci/typecheck.py leaves: the wheel, the folder it was installed into, the modules that mypy read."""

    wheel: Path
    site: Path
    read_by_mypy: frozenset[str]
    mypy_exit: int
    log: str


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds, installs and type-checks once for all tests of this file (with mypy's cache of the checkout)."""
    workdir = tmp_path_factory.mktemp("typecheck")
    run = subprocess.run(
        [sys.executable, ROOT / ".ci" / "typecheck.py", workdir], capture_output=True, text=True, timeout=900
    )
    report = workdir / "report" / "linecount.txt"
    assert report.exists(), run.stdout + run.stderr
    modules = frozenset(line.split()[-1] for line in report.read_text().splitlines()) - {"total"}
    (wheel,) = (workdir / "dist").glob("*.whl")
    return Built(wheel, workdir / "site", modules, run.returncode, run.stdout + run.stderr)


def tracked() -> set[str]:
    """The tracked files of the package's folders, by the path at which a wheel must hold them."""
    git = subprocess.run(
        ["git", "ls-files", "-z", *FOLDERS.values()], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {folder: package.replace(".", "/") for package, folder in FOLDERS.items()}
    files = (Path(name) for name in git.stdout.split("\0") if name)
    return {str(Path(names[file.parts[0]], *file.parts[1:])) for file in files if (ROOT / file).exists()}


def modules() -> set[str]:
    """The tracked Python files that are modules: sources of portable kernels are data, loaded by digest."""
    kernels = "kvbuffer_codegen/generated/triton/"
    return {name for name in tracked() if name.endswith(".py") and not name.startswith(kernels)}


def run_outside(code: str, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Runs code from a folder outside the checkout, with the installed wheel ahead of everything else."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


def test_wheel_holds_exactly_the_tracked_files(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == tracked()


def test_mypy_is_clean_over_the_installed_wheel(built: Built) -> None:
    assert built.mypy_exit == 0, built.log


def test_mypy_read_every_file_of_the_tree(built: Built) -> None:
    python = {name.removesuffix(".py").removesuffix("/__init__") for name in modules()}
    assert len(python) > 20
    folders = "kvbuffer_codegen.generated."  # of kernels: no modules, but mypy counts them as namespaces
    read = {name for name in built.read_by_mypy if not name.startswith(folders)}
    assert {name.replace("/", ".") for name in python} == read


def test_every_folder_with_modules_is_a_listed_package() -> None:
    folders = {str(Path(name).parent) for name in modules()}
    assert {folder.replace("/", ".") for folder in folders} == set(CONFIG["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("name", ["ir", "schedules", "generated"])
def test_no_top_level_module_leaks(built: Built, tmp_path: Path, name: str) -> None:
    leak = run_outside(f"import {name}", tmp_path, built.site)
    assert f"No module named '{name}'" in leak.stderr
    inside = run_outside(f"import kvbuffer_codegen.{name} as m; print(m.__file__)", tmp_path, built.site)
    assert inside.stdout.startswith(str(built.site)), inside.stderr


def test_runtime_imports_with_every_compiler_blocked(built: Built, tmp_path: Path) -> None:
    code = BLOCKER.format(blocked=BLOCKED) + "import kvbuffer_codegen as k; k.Pool, k.load_kernel; print('loaded')"
    run = run_outside(code, tmp_path, built.site)
    assert run.stdout == "loaded\n", run.stderr


def test_the_blocker_blocks(built: Built, tmp_path: Path) -> None:
    run = run_outside(BLOCKER.format(blocked=BLOCKED) + "import kvbuffer_codegen.schedules", tmp_path, built.site)
    assert "kvbuffer_codegen.schedules is blocked" in run.stderr


def test_ir_imports_numpy_only(built: Built, tmp_path: Path) -> None:
    blocked = (*BLOCKED, "torch", "tvm_ffi", "platformdirs")
    code = BLOCKER.format(blocked=blocked) + "import kvbuffer_codegen.ir.recurrences; print('loaded')"
    run = run_outside(code, tmp_path, built.site)
    assert run.stdout == "loaded\n", run.stderr


def test_ci_runs_exactly_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make test"


def test_first_lines_of_the_readme_give_both_commands() -> None:
    head = (ROOT / "README.md").read_text().splitlines()[:12]
    assert any(line.startswith("make demo") for line in head)
    assert any(line.startswith("make test") for line in head)
