"""Build a wheel of the checkout, install it into a folder of its own and run mypy over that.

mypy over the checkout would skip ir/, schedules/ and generated/, which only an install puts under kvbuffer_codegen.
Usage: typecheck.py WORKDIR. Leaves WORKDIR/dist/*.whl, WORKDIR/site and WORKDIR/report/linecount.txt (one line for each
module that mypy read). Exit code: mypy's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(workdir: Path) -> int:
    """Returns mypy's exit code; raises CalledProcessError when the wheel cannot be built or installed."""
    source, dist, site, report = (workdir / name for name in ("source", "dist", "site", "report"))
    shutil.rmtree(workdir, ignore_errors=True)
    # A build in the checkout would leave its build/ folder there, and take files deleted since out of it.
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".flashinfer", ".peers", ".whl", ".*cache", "build", "dist", "*.egg-info", "__py*"
    )
    shutil.copytree(ROOT, source, ignore=ignored)
    python = [sys.executable, "-m"]
    build = [*python, "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(source)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = dist.glob("*.whl")
    install = [*python, "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True)
    mypy = [*python, "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    mypy += ["--linecount-report", str(report), "-p", "kvbuffer_codegen"]
    # Run inside `site`: there the installed package is the only kvbuffer_codegen in sight.
    return subprocess.run(mypy, cwd=site, env={**os.environ, "MYPYPATH": str(site)}).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: typecheck.py WORKDIR")
    sys.exit(main(Path(sys.argv[1]).resolve()))
