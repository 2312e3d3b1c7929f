"""Folders that kernels are kept in and looked for.

``KVBUFFER_CODEGEN_CACHE`` moves the user's cache (default: platformdirs' cache folder). ``KVBUFFER_CODEGEN_PATH`` is
a list of folders, separated by ``:``, that are searched before it.
"""

from __future__ import annotations

import importlib.resources
import os
from pathlib import Path

from kvbuffer_codegen.trust import distrust

CACHE_VARIABLE = "KVBUFFER_CODEGEN_CACHE"
PATH_VARIABLE = "KVBUFFER_CODEGEN_PATH"


class CacheError(OSError):
    """The user's cache cannot be made, or others could have written it."""


def cache_folder(*parts: str) -> Path:
    """The user's cache folder, or the folder ``parts`` in it: made with mode 0700 where it is not there.

    Raises :class:`CacheError` where it cannot be made, is owned by another user, or is writable by others.
    """
    folder = cache_root()
    for step in (folder, *(folder.joinpath(*parts[: i + 1]) for i in range(len(parts)))):
        try:
            step.mkdir(mode=0o700, parents=True, exist_ok=True)
            reason = distrust(step, step.stat())
        except OSError as error:
            raise CacheError(
                f"the cache folder {step} cannot be made ({error.strerror}): set {CACHE_VARIABLE} to one that can be"
            ) from error
        if reason:
            raise CacheError(f"refused cache folder: {reason}, or set {CACHE_VARIABLE} to a folder of your own")
    return step


def cache_root() -> Path:
    """Where the user's cache is, whether or not it exists yet."""
    moved = os.environ.get(CACHE_VARIABLE)
    if moved:
        return Path(os.path.expanduser(moved)).absolute()
    import platformdirs  # not needed where the variable is set

    return Path(platformdirs.user_cache_dir("kvbuffer-codegen"))


def shipped_folder() -> Path:
    """The folder of the kernels that come with the package."""
    with importlib.resources.as_file(importlib.resources.files("kvbuffer_codegen.generated")) as folder:
        return folder


def search_path() -> list[Path]:
    """Folders with kernels, the first to be asked first: ``KVBUFFER_CODEGEN_PATH``, the user's cache, the shipped ones.

    Folders that are not there are kept: they may be made later. Each holds an ``index.json``.
    """
    listed = [
        Path(os.path.expanduser(entry)).absolute()  # which, unlike Path.expanduser, takes a user that is not there
        for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
        if entry
    ]
    return list(dict.fromkeys([*listed, cache_root() / "kernels", shipped_folder()]))
