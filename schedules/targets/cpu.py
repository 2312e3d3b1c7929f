"""The machine that compiles: binaries are made where they run, for exactly its instruction set."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets.base import Target

TARGET = Target(name="cpu", kind="cpu", arch="native", vector_bytes=64)
