"""What a kernel raises: one sentence each that names the argument, what was given, what is accepted, and the fix."""

from __future__ import annotations


def shown(value: object) -> str:
    """``value`` as an error shows it: one line, not a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


class ArgumentError(ValueError):
    """An argument of a kernel that is not what its manifest says. Nothing was launched, nothing was touched.

    ``argument`` is its name; empty where the number of arguments is wrong.
    """

    def __init__(self, kernel: str, argument: str, given: str, accepted: str, fix: str = "") -> None:
        self.argument = argument
        subject = f"{kernel}: {argument} " if argument else f"{kernel}: "
        super().__init__(f"{subject}{given}; accepted: {accepted}" + (f"; {fix}" if fix else ""))


class KernelError(RuntimeError):
    """A driver, a binary or the operating system refused to load or start a kernel."""
