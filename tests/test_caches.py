"""Where kernels are kept and looked for."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from kvbuffer_codegen.caches import CacheError, cache_folder, cache_root, search_path, shipped_folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "a" / "cache"))
    monkeypatch.delenv("KVBUFFER_CODEGEN_PATH", raising=False)
    return tmp_path / "a" / "cache"


def test_made_for_the_user_alone(root: Path) -> None:
    assert cache_root() == root
    assert not root.exists()
    assert cache_folder("kernels", "cpu") == root / "kernels" / "cpu"
    for folder in (root, root / "kernels", root / "kernels" / "cpu"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache_folder() == root


def test_the_users_cache_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KVBUFFER_CODEGEN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_root() == tmp_path / "kvbuffer-codegen"


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", "~/kernels")
    assert cache_root() == tmp_path / "kernels"


def test_a_cache_that_others_can_write_is_refused(root: Path) -> None:
    cache_folder().chmod(0o777)
    with pytest.raises(CacheError, match=r"refused cache folder: .* is writable by everybody .*set KVBUFFER"):
        cache_folder("kernels")
    assert not (root / "kernels").exists()


def test_a_cache_of_another_user_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder()
    if os.geteuid() == 0:
        os.chown(root, 4242, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 4242)
    with pytest.raises(CacheError, match=r"is owned by user"):
        cache_folder()


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError, match=r"cannot be made \(Not a directory\): set KVBUFFER_CODEGEN_CACHE"):
        cache_folder()


def test_search_path(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert search_path() == [root / "kernels", shipped_folder()]
    assert not root.exists()
    monkeypatch.setenv("KVBUFFER_CODEGEN_PATH", f"{tmp_path}/one::{tmp_path}/two:{tmp_path}/one")
    assert search_path() == [tmp_path / "one", tmp_path / "two", root / "kernels", shipped_folder()]


def test_what_ships_is_found() -> None:
    assert (shipped_folder() / "__init__.py").is_file()
