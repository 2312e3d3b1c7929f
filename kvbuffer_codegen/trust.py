"""Which files may be loaded: those that only the user or root can have written."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def distrust(path: Path, status: os.stat_result) -> str | None:
    """Why ``path`` with ``status`` must not be loaded, or None.

    Whoever can write a kernel's folder can run code as the user. So the owner must be the user or root, and nobody
    else may write; a group may where it is the owner's private one (Debian's and Fedora's default umask of 002 makes
    such files).
    """
    if status.st_uid not in (os.geteuid(), 0):
        owner, user = _user(status.st_uid), _user(os.geteuid())
        return f"{path} is owned by {owner}; accepted are {user} and root: copy it or use chown"
    if status.st_mode & stat.S_IWOTH:
        return f"{path} is writable by everybody (mode {stat.S_IMODE(status.st_mode):o}): use chmod o-w"
    if status.st_mode & stat.S_IWGRP and not _private_group(status):
        return f"{path} is writable by its group (mode {stat.S_IMODE(status.st_mode):o}): use chmod g-w"
    return None


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _private_group(status: os.stat_result) -> bool:
    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}
