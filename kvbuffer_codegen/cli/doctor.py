"""``doctor``: what this machine has, for a bug report and for whoever wonders why a kernel is not found."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from typing import Any

from kvbuffer_codegen import __version__
from kvbuffer_codegen.artifact import cpu_device, cuda_version
from kvbuffer_codegen.caches import CACHE_VARIABLE, PATH_VARIABLE, CacheError, cache_folder, cache_root, search_path
from kvbuffer_codegen.cli.common import DONE, FAILED, print_json, target_of

HELP = "device, driver, compilers, launcher, cache folder, versions"
PACKAGES = ("torch", "numpy", "apache-tvm-ffi", "platformdirs", "tilelang", "triton", "transformers", "rich")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    found = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "target": target_of(None).name,
        "cpu": _cpu(),
        "gpus": _gpus(),
        "compilers": _compilers(),
        "launcher": _launcher(),
        "cache": _cache(),
        "search_path": [{"folder": str(f), "there": f.is_dir()} for f in search_path()],
        "variables": {name: os.environ.get(name, "") for name in (CACHE_VARIABLE, PATH_VARIABLE)},
        "packages": {name: _version(name) for name in PACKAGES},
    }
    if args.json:
        print_json(found)
    else:
        _print(found)
    return DONE if found["cache"]["usable"] else FAILED


def _cpu() -> dict[str, Any]:
    device = cpu_device()
    return {
        "name": device.name,
        "machine": device.capability,
        "threads": len(os.sched_getaffinity(0)),
        "features": len(device.features),
    }


def _gpus() -> list[dict[str, Any]]:
    import torch

    from kvbuffer_codegen.runtime.loader import describe

    if not torch.cuda.is_available():
        return []
    gpus = []
    for i in range(torch.cuda.device_count()):
        device = describe(torch.device("cuda", i))
        gpus.append(
            {
                "name": device.name,
                "capability": device.capability,
                "memory_gib": round(torch.cuda.get_device_properties(i).total_memory / 2**30, 1),
                "driver_cuda": cuda_version(device.driver),
            }
        )
    return gpus


def _compilers() -> dict[str, str]:
    """What each target kind would be compiled with, or why it cannot be."""
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler
    from kvbuffer_codegen.schedules.targets import TARGETS

    found = {}
    for target in TARGETS.values():
        try:
            compiler = find_compiler(target)
            found[target.name] = f"{compiler.name} {compiler.version}"
        except MissingCompiler as error:
            found[target.name] = f"missing: {error}"
    return found


def _launcher() -> str:
    from kvbuffer_codegen.runtime.launcher import launcher_status

    kind, detail = launcher_status()
    return f"{kind} ({detail})"


def _cache() -> dict[str, Any]:
    root = cache_root()
    try:
        cache_folder()
    except CacheError as error:
        return {"folder": str(root), "usable": False, "reason": str(error)}
    return {"folder": str(root), "usable": os.access(root, os.W_OK), "mode": oct(root.stat().st_mode & 0o7777)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print(found: dict[str, Any]) -> None:
    cpu, cache = found["cpu"], found["cache"]
    print(f"kvbuffer-codegen {found['version']}, Python {found['python']}, {found['platform']}")
    print(f"target     {found['target']}")
    print(f"cpu        {cpu['name']}, {cpu['machine']}, {cpu['threads']} threads")
    for gpu in found["gpus"]:
        driver = f"driver for CUDA {gpu['driver_cuda']}"
        print(f"gpu        {gpu['name']}, {gpu['capability']}, {gpu['memory_gib']} GiB, {driver}")
    if not found["gpus"]:
        print("gpu        none found by torch")
    for name, text in found["compilers"].items():
        print(f"compiler   {name}: {text}")
    print(f"launcher   {found['launcher']}")
    print(
        f"cache      {cache['folder']}: "
        + (f"mode {cache['mode']}" if cache["usable"] else cache.get("reason", "not writable"))
    )
    for entry in found["search_path"]:
        print(f"kernels    {entry['folder']}{'' if entry['there'] else ' (not there yet)'}")
    print(
        "packages   " + ", ".join(f"{name} {version or 'not installed'}" for name, version in found["packages"].items())
    )
