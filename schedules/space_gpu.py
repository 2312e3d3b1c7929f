"""CUDA schedules: which ways a [V, K] tile is dealt to threads there are (``geometry``: what follows from one), which
is the default, and which were fast. No compiler is imported here."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kvbuffer_codegen.ir.forms import FORMS, STATES, KernelSpec
from kvbuffer_codegen.schedules.geometry import MAX_STATE, WARP, Geometry
from kvbuffer_codegen.schedules.space import CURSOR_FORMS, Schedule, TargetLike

#: Shapes that were the fastest of something on an H200: (block_v, lanes, threads, ctas_per_sm, mma, stage).
FAST = {
    "stage": (
        (64, 16, 128, 4, 0, 1),
        (128, 16, 256, 2, 0, 1),
        (32, 16, 128, 7, 0, 1),
        (64, 16, 256, 3, 0, 1),
        (64, 16, 128, 3, 0, 1),
        (32, 16, 128, 5, 0, 1),
        (64, 32, 256, 3, 0, 1),
    ),
    "step": (
        (16, 16, 64, 8, 0, 0),
        (32, 32, 128, 4, 0, 0),
        (32, 8, 64, 8, 0, 0),
        (32, 16, 128, 5, 0, 0),
        (16, 32, 64, 8, 0, 0),
    ),
    "registers": (
        (64, 16, 128, 3, 0, 0),
        (16, 16, 128, 6, 0, 0),
        (128, 16, 256, 2, 0, 0),
        (8, 16, 128, 6, 0, 0),
        (64, 16, 128, 4, 0, 0),
        (32, 16, 128, 5, 0, 0),
    ),
    "mma": (
        (64, 16, 128, 4, 1, 0),
        (64, 16, 128, 6, 1, 0),
        (32, 16, 128, 6, 1, 0),
        (64, 16, 128, 5, 1, 0),
        (128, 16, 128, 4, 1, 0),
        (64, 16, 64, 8, 1, 0),
        (32, 16, 128, 7, 1, 0),
        (128, 16, 128, 5, 1, 0),
        (128, 16, 256, 2, 1, 0),
        (64, 16, 128, 3, 1, 0),
        (16, 16, 64, 8, 1, 0),
        (128, 16, 256, 3, 1, 0),
    ),
}


@dataclass(frozen=True)
class GpuSchedule(Schedule):
    """Fields of a CUDA candidate.

    block_v       state rows of a block
    lanes         threads that share a row: a power of two inside a warp
    threads       threads of a block
    ctas_per_sm   blocks that must fit a multiprocessor: a thread may have 65536 / (threads * ctas_per_sm) registers
    mma           1: a window's products on tensor cores, its state through shared memory (``gpu_mma``)
    stage         1: the state is asked for after the records and waits in shared memory until scores are done
    apart         1: rows without a checkpoint have code of their own (``gpu_records``), the others that of a kernel
                  without kv_only capacity
    """

    kind: ClassVar[str] = "cuda"
    choices: ClassVar[dict[str, tuple[int, ...]]] = {
        "block_v": (8, 16, 32, 64, 128),
        "lanes": (4, 8, 16, 32),
        "threads": (64, 128, 256),
        "ctas_per_sm": (1, 2, 3, 4, 5, 6, 7, 8),
        "mma": (0, 1),
        "stage": (0, 1),
        "apart": (0, 1),
    }
    cursor_threads: ClassVar[tuple[int, ...]] = (32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)

    block_v: int = 32
    lanes: int = 16
    threads: int = 128
    ctas_per_sm: int = 1
    mma: int = 0
    stage: int = 0
    apart: int = 0

    @classmethod
    def legal(cls, spec: KernelSpec, target: TargetLike) -> list[Self]:
        if spec.form in CURSOR_FORMS:
            return [cls(threads=threads) for threads in cls.cursor_threads]
        if spec.form == "compact":
            return [cls(threads=threads) for threads in cls.choices["threads"]]
        limit = getattr(target, "shared_limit", 0) or 99 * 1024
        made = (cls(*values) for values in itertools.product(*cls.choices.values()))
        fitting = [s for s in made if Geometry(spec, s).fits(limit)]
        narrow = [s for s in fitting if not Geometry(spec, s).wasteful]
        return narrow or fitting

    @classmethod
    def default(cls, spec: KernelSpec, target: TargetLike) -> Self:
        if spec.form in CURSOR_FORMS or spec.form == "compact":
            return cls(threads=128)
        if spec.kv_only:
            limit = getattr(target, "shared_limit", 0) or 99 * 1024
            apart = replace(cls.default(replace(spec, kv_only=0), target), apart=1)
            if apart.stage:  # a fold of such rows spills 128 bytes with four
                apart = replace(apart, ctas_per_sm=min(apart.ctas_per_sm, 3))
            if Geometry(spec, apart).fits(limit):
                return apart

        # Measured on an H200. Scores, gates and addresses cost a block the same whatever its tile: where they are
        # many, large tiles win (over many rows; with one row, small ones). 16 warps of a multiprocessor hide latency; a
        # window needs the registers of half of them, unless it is known to fit. A block that walks channels works
        # through its records with the registers of 12 warps: 28.6 us (KDA, B = 32), with 16 and a staged state 30.9.
        most, threads = (MAX_STATE, 256) if FORMS[spec.form].folds == "full" else (32, 128)
        known = getattr(target, "name", "") == "sm_90a"  # sm_100f spills some of these
        brims = [known and fits_the_brim(spec, stage) for stage in (0, 1)]
        enough = 16 if brims[0] or not FORMS[spec.form].window else 8

        def preference(s: Self) -> tuple[Any, ...]:
            g = Geometry(spec, s)
            wide = spec.layout == "VK" or g.rows * STATES[spec.state] >= 16  # bytes of an access
            spare = s.registers - g.pressure
            clean = spare >= 0 or (brims[s.stage] and s.lanes == 16 and g.rows == g.columns == 8 and s.registers == 128)
            warps = min(s.threads * s.ctas_per_sm // WARP, 12 if g.by_channel else enough)
            stage = s.stage if g.rows >= 4 and warps >= 12 and not g.by_channel else -s.stage
            shape = (
                -g.sweeps,
                g.columns <= 16,
                not g.masked_columns,
                g.state <= most,
                g.by_channel,
                warps,
                g.columns <= 8,
                s.lanes == 16,
                s.threads == (128 if s.stage or g.by_channel else threads),
                g.state,
            )
            return (clean, min(spare, 0) if not clean else 0, wide, stage, *shape, -s.ctas_per_sm)

        made = [s for s in cls.legal(spec, target) if not s.apart]
        tensor = [s for s in made if s.mma and Geometry(spec, s).pressure <= s.registers]
        narrow, window = spec.state != "float32", FORMS[spec.form].window
        if tensor and (window or narrow):
            rows = 128 if window and narrow else 64  # half the bytes of a tile: the rest of a block weighs more
            threads = 128 if window else 64
            return max(tensor, key=lambda s: (-abs(s.block_v - rows), s.threads == threads, s.ctas_per_sm))
        legal = [s for s in made if not s.mma]
        if not legal:
            what = f"form={spec.form}, window={spec.window}, state={spec.state}, K={spec.K}, V={spec.V}"
            accepted = f"fewer nodes, whose vectors fit {getattr(target, 'shared_limit', 0)} bytes of shared memory"
            raise ValueError(f"{what}: no CUDA schedule; accepted: {accepted}")
        return max(legal, key=preference)

    @classmethod
    def suggested(cls, spec: KernelSpec, target: TargetLike) -> list[Self]:
        if spec.form in CURSOR_FORMS or spec.form == "compact":
            return []
        legal = cls.legal(spec, target)
        narrow = ("mma", "stage", "registers") if spec.state != "float32" else ("stage", "registers")
        order = ("mma", "registers") if FORMS[spec.form].window else narrow
        order = ("step", "registers") if spec.form == "step" else order
        made = [cls(*values) for kind in order for values in FAST[kind]]
        made = [replace(s, apart=1) for s in made if spec.kv_only] + made
        return [s for s in made if s in legal]

    @property
    def registers(self) -> int:
        """What a thread may have."""
        return min(65536 // (self.threads * self.ctas_per_sm) // 8 * 8, 255)

    @classmethod
    def space(cls) -> dict[str, Any]:
        return {**cls.choices, "cursor_threads": cls.cursor_threads}


def fits_the_brim(spec: KernelSpec, stage: int = 0) -> bool:
    """Forms of a gated delta rule that were compiled with 128 registers for a tile of 64 values a lane, and timed:
    tighter than :attr:`Geometry.pressure` allows."""
    decays = spec.record_layout
    scalar = decays.log_decay_scalar is not None and decays.log_decay_key is None and decays.log_decay_value is None
    reads = len(spec.program.reads)
    tokens = (1, 2, 4) if spec.state == "float32" and not stage else (1,)
    plain = scalar and not spec.scaled and not spec.stochastic and len(decays.rights) == 1 and spec.layout == "VK"
    return plain and 2 - stage <= reads <= 2 and spec.tokens in tokens and 0 < spec.history < 16
