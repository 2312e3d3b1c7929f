"""The shapes of registers and of shared memory that follow from a spec and a CUDA schedule, and whether they fit.
No compiler is imported here.

A block owns ``block_v`` rows of one value head. ``lanes`` neighbouring threads of a warp (a *group*) share ``rows``
neighbouring rows, and each lane keeps the same ``columns`` columns of all of them in registers: *pieces* of ``piece``
contiguous columns, ``lanes * piece`` apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr, walk
from kvbuffer_codegen.ir.forms import DTYPES, FORMS, STATES, KernelSpec, most_accepted

if TYPE_CHECKING:
    from kvbuffer_codegen.schedules.space_gpu import GpuSchedule

WARP = 32
MAX_ROWS, MAX_STATE = 8, 64  #: rows of a lane, and float32 state values of a lane, that still fit its registers
#: Tokens that are solved together, scores of a record against all of them, bytes of their vectors in shared memory.
MAX_WINDOW, MAX_VALUES, MAX_SHARED = 8, 64, 24 * 1024
MOST_VECTORS = 64 * 1024  #: bytes of float32 vectors that a tree has in shared memory
STRIP, STEP = 16, 8  #: rows, and vectors or records, of a product of tensor cores; a strip of columns is 16 too
BAND = 64  #: columns of an 8-bit state of which a lane has 16 bytes of each of its rows
MAX_DEPTH = 8  #: records of a lane that walks channels
MAX_RECORDS, MAX_STRIPS = 32, 2  #: of a window on tensor cores: records of a row, and strips of read vectors


def housed(
    g: Geometry, needed: dict[str, tuple[int, ...]], free: dict[str, tuple[int, ...]]
) -> dict[str, tuple[str, int]]:
    """For arrays of two axes that are needed: one that is free, of the same dtype and large enough, and the row from
    which it is free. An array of one axis houses one other."""
    found: dict[str, tuple[str, int]] = {}
    used = dict.fromkeys(free, 0)
    for name, (rows, columns) in needed.items():
        for other, shape in free.items():
            flat = len(shape) == 1
            fits = shape[0] >= rows * columns if flat else shape[0] - used[other] >= rows and shape[1] >= columns
            if fits and not (flat and used[other]) and g.shared_dtype(other) == g.shared_dtype(name):
                found[name] = other, used[other]
                used[other] += rows
                break
    return found


NOT_FOLDED = ("scores", "reads", "rights", "numbers", "token_decay")  #: arrays that no fold uses


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(n - 1, 0).bit_length()


def factored(value: Expr) -> tuple[Expr, Expr]:
    """(number, rest) whose product is ``value``: the numbers of a product over K, which can wait until after a sum."""
    if value.op != "mul":
        return ex.const(1.0), value
    number = rest = ex.const(1.0)
    for argument in value.args:
        n, r = factored(argument) if argument.axes else (argument, ex.const(1.0))
        number, rest = ex.apply("mul", number, n), ex.apply("mul", rest, r)
    return number, rest


@dataclass(frozen=True)
class Geometry:
    """What follows from a spec and a schedule: the shapes of registers and of shared memory."""

    spec: KernelSpec
    schedule: GpuSchedule

    @property
    def K(self) -> int:
        return self.spec.K

    @property
    def V(self) -> int:
        return self.spec.V

    @property
    def replays(self) -> bool:
        """Tokens of a window one after another through a state in registers, not all against one read of it."""
        spec = self.spec
        shared = spec.tokens * (self.reads + self.rank + self.key_decay) * spec.K * 4
        many = spec.tokens > MAX_WINDOW or spec.tokens * self.rank * self.reads > MAX_VALUES or shared > MAX_SHARED
        return FORMS[spec.form].window and many and not spec.tree

    @property
    def T(self) -> int:
        """Tokens in registers at a time."""
        return 1 if self.replays else self.spec.tokens

    @property
    def history(self) -> int:
        """The most records that tokens are read against."""
        return 0 if self.replays else self.spec.history

    @property
    def lanes(self) -> int:
        return self.schedule.lanes

    @property
    def groups(self) -> int:
        return self.schedule.threads // self.lanes

    @property
    def rows(self) -> int:
        return self.schedule.block_v // self.groups

    @property
    def tiles(self) -> int:
        """Tiles that V is divided into; the last may be partly empty."""
        return ceil_div(self.V, self.schedule.block_v)

    @property
    def sweeps(self) -> int:
        """Tiles that one block walks: a channel's scale is a maximum over all of V."""
        return self.tiles if self.spec.scaled and FORMS[self.spec.form].folds != "never" else 1

    @property
    def blocks(self) -> int:
        return self.tiles // self.sweeps

    @property
    def roundings(self) -> int:
        """Times that a call rounds the state: by a fold, by the update of a step."""
        return 2 if FORMS[self.spec.form].writes_state else 1

    @property
    def piece(self) -> int:
        """Contiguous columns of a lane: 16 bytes of state, at most eight values, in layout VK, four columns (of keys)
        in KV, one where K allows no more. On tensor cores, which deal the state otherwise: as many as share K out."""
        if self.schedule.mma:
            return 8 if self.K % (8 * self.lanes) == 0 else 4
        wanted = min(16 // STATES[self.spec.state], 8) if self.spec.layout == "VK" else 4
        return wanted if self.K % wanted == 0 else 1

    @property
    def pieces(self) -> int:
        return ceil_div(self.K, self.lanes * self.piece)

    @property
    def columns(self) -> int:
        return self.pieces * self.piece

    @property
    def padded_k(self) -> int:
        """K as vectors in shared memory have it: every lane's columns exist."""
        return self.columns * self.lanes

    @property
    def state(self) -> int:
        """float32 state values of a lane."""
        return self.rows * self.columns

    @property
    def masked_columns(self) -> bool:
        return self.padded_k != self.K

    @property
    def masked_rows(self) -> bool:
        return self.V % self.schedule.block_v != 0

    @cached_property
    def rank(self) -> int:
        return len(self.spec.record_layout.rights)

    @cached_property
    def reads(self) -> int:
        return len(self.spec.program.reads)

    @property
    def slots(self) -> int:
        """Records that a lane carries while tokens are read: lane l of each group has records l, l + lanes, ..."""
        carried = self.most_records if self.history and self.key_decay else self.history  # folded from there too
        return 0 if self.schedule.mma else ceil_div(carried, self.lanes)

    @property
    def most_records(self) -> int:
        """The most records a row can hold, folding or not."""
        never = FORMS[self.spec.form].folds == "never"
        return 0 if never else most_accepted(self.spec.buffer, self.spec.kv_only)

    @property
    def batch(self) -> int:
        """Records whose right vectors a group loads at a time."""
        few = self.T == self.rank == 1 and self.columns <= 8  # registers for records
        most = 4 if self.history > 16 and few else 2
        return max(1, min(most, ceil_div(self.most_records, self.groups)))

    @property
    def by_channel(self) -> bool:
        """Records and tokens are walked channel by channel (``gpu_channel``): all records of a row at once."""
        chain = FORMS[self.spec.form].folds == "full" and not self.spec.tree and not self.replays
        if not self.key_decay or not chain or self.schedule.mma:
            return False
        c = Channels(self.spec, self.schedule)
        return c.depth <= MAX_DEPTH and (self.T == 1 or c.depth * self.values <= MAX_VALUES)

    @property
    def one_chunk(self) -> bool:
        """Every record of a row is in registers at once: a left vector a lane, a batch of right vectors a group."""
        return not self.key_decay and self.most_records <= min(self.lanes, self.batch * self.groups)

    @property
    def values(self) -> int:
        """Scores of one record: its right vectors against every read vector of the window."""
        return self.rank * self.reads * self.T

    @property
    def score_stride(self) -> int:
        return self.values | 1  # odd: lanes that read one score each of neighbouring records meet no bank twice

    @property
    def resident(self) -> bool:
        """One token: its vectors stay in every lane's registers; a window's go through shared memory."""
        return self.T <= 1 and not self.schedule.mma

    @cached_property
    def dealt(self) -> bool:
        """The numbers of the one token are computed by one warp, for all: a barrier comes anyway, and no read vector
        waits for a number."""
        waits = any(n.op == "scalar" for n in walk(*(factored(read)[1] for read in self.spec.program.reads)))
        deals = self.history > 0 and not self.replays and not waits and self.schedule.threads > WARP
        return self.by_channel or (self.resident and deals)

    @cached_property
    def ordinary(self) -> Geometry:
        """Of rows with a checkpoint, where others have code apart."""
        return Geometry(replace(self.spec, kv_only=0), replace(self.schedule, apart=0))

    @cached_property
    def folding(self) -> Geometry:
        """Of rows whose records, however many, make their first checkpoint, where such rows have code apart."""
        return Geometry(self.spec, replace(self.schedule, mma=0, stage=0, apart=0))

    @property
    def late_decay(self) -> bool:
        """The decays of the records weigh what is read of the state, not the state: fewer numbers."""
        return self.history > 0 and not self.key_decay and not self.spec.tree and self.T * self.reads <= self.columns

    @property
    def key_decay(self) -> bool:
        """A log-decay over K weighs the right vectors themselves, channel by channel, so that they pass through shared
        memory."""
        return self.spec.record_layout.log_decay_key is not None

    @property
    def strips(self) -> int:
        """Tensor cores: rows of a block in strips of 16."""
        return self.schedule.block_v // STRIP

    @property
    def warps(self) -> int:
        return self.schedule.threads // WARP

    @property
    def parts(self) -> int:
        """Warps that share a strip, column by column."""
        return max(1, self.warps // self.strips)

    @property
    def gates_shared(self) -> bool:
        """Tensor cores: a token's gate is behind its shared numbers, not worked out by every row's thread."""
        return bool(self.schedule.mma)

    @property
    def appends_late(self) -> bool:
        """Tensor cores: tokens are appended when all else is done. A group has one of the window at most, whose inputs
        stay in its registers."""
        return 1 < self.T <= self.groups and STATES[self.spec.state] == 2

    @property
    def owned(self) -> int:
        """Strips of a warp."""
        return max(1, self.strips // self.warps)

    def left_at(self, o: int, r: int, s: int) -> int:
        """Where a lane's left vectors ``r`` of step ``s`` of records and the warp's strip ``o`` start."""
        return ((o * self.rank + r) * self.padded_records // STEP + s) * 4

    @property
    def digit_tiles(self) -> int:
        """Products over digits of an 8-bit state's read vectors, for each tile of reads: a lane holds all digits of two
        reads, of one, or half of one's."""
        return 4 if self.T * self.reads > 4 else 2 if self.T * self.reads > 2 else 1

    @property
    def spread(self) -> int:
        """Columns of a product from one read to the next: what is read of records lies where the state's digits do."""
        return 4 // self.digit_tiles if self.spec.scaled else 1

    @property
    def few(self) -> bool:
        """Read vectors are the right operand, eight of them: as the left one they would leave half of it empty."""
        return self.spec.scaled or self.T * self.reads <= STEP

    @property
    def read_tiles(self) -> int:
        """Read vectors, eight an operand."""
        return ceil_div(self.T * self.reads, STEP)

    @property
    def read_strips(self) -> int:
        """Read vectors, 16 an operand."""
        return ceil_div(self.T * self.reads, STRIP)

    @property
    def record_steps(self) -> int:
        """Steps over all records of a row; its history has as many or fewer."""
        return ceil_div(self.most_records, STEP)

    @property
    def padded_records(self) -> int:
        """Right vectors in shared memory, two steps of which may be one operand."""
        return ceil_div(self.record_steps, 2) * STRIP

    @property
    def weight_slots(self) -> int:
        """Records that a lane weighs: lane l of a group has records l, l + lanes, ..."""
        return ceil_div(self.most_records, self.lanes)

    @property
    def key_rounds(self) -> int:
        """Records, and places behind the last, whose right vectors one group stages."""
        return ceil_div(self.padded_records, self.groups)

    @cached_property
    def read_dtype(self) -> str:
        """What read vectors are in shared memory: as the inputs they are, or float32."""
        return self._narrow(factored(read)[1] for read in self.spec.program.reads)

    @cached_property
    def key_dtype(self) -> str:
        """The same of right vectors."""
        own = [factored(right)[1] for right in self.spec.program.rights]
        return self._narrow([*own, *(right.vector for right in self.spec.record_layout.rights)])

    @property
    def copied_keys(self) -> bool:
        """Right vectors of records are 16-bit fields, copied to shared memory without passing through registers."""
        return self.key_dtype != "float32"

    @cached_property
    def left_dtype(self) -> str:
        """What left vectors of records are: as the ring has them, or float32."""
        stored = {f.name: f.stored(self.spec.io) for f in self.spec.record_layout.fields}
        dtypes = {stored[left.value] if left.op == "field" else "float32" for left in self.spec.record_layout.lefts}
        return dtypes.pop() if len(dtypes) == 1 else "float32"

    def _narrow(self, vectors: Iterable[Expr]) -> str:
        stored = {f.name: f.stored(self.spec.io) for f in self.spec.record_layout.fields}
        assert self.spec.recurrence is not None
        inputs = {a.name for a in self.spec.recurrence.arguments if not a.parameter}
        for v in vectors:
            raw = v.op == "input" and v.value[0] in inputs
            if not raw and not (v.op == "field" and stored[v.value] == self.spec.io):
                return "float32"
        return self.spec.io

    @property
    def crowded(self) -> bool:
        """A tree with so many nodes that vectors which are inputs stay in their own dtype in shared memory."""
        words = self.T * (self.reads + self.rank) * self.padded_k
        return self.spec.tree and not self.key_decay and 4 * words > MOST_VECTORS

    def shared_dtype(self, name: str) -> str:
        if name == "record_lefts":
            return self.left_dtype
        if self.schedule.mma and name in ("state", "reads", "keys"):
            return {"state": self.spec.state, "reads": self.read_dtype, "keys": self.key_dtype}[name]
        if self.crowded and name in ("reads", "rights"):
            return self.read_dtype if name == "reads" else self._narrow(self.spec.program.rights)
        if name == "tile":
            return self.spec.state
        if name == "digits":
            return "uint32"
        return "int32" if name == "parents" else "float32"

    def _shared_mma(self) -> dict[str, tuple[int, ...]]:
        """Strides: what the lanes of an access touch lies in different banks."""
        s = self.schedule
        return {
            "state": (s.block_v, self.K + {"float32": 4, "int8": 16}.get(self.spec.state, 8)),
            "reads": (self.T * self.reads, self.K + 8),
            "keys": (self.rank * (self.padded_records + self.T), self.K + 8),
            "numbers": (self.T, len(self.spec.program.definitions) + 1),
            "weights": (self.rank * self.weight_slots * self.lanes + 1,),
            **({"scores": (self.T, ceil_div(self.values, 4) * 4)} if self.T > 1 else {}),  # read by four
            "sums": (self.parts * self.T * self.reads, s.block_v + (4 if self.few else s.block_v % WARP == 0 and 16)),
            **(self._shared_codes() if self.spec.scaled else {}),
        }

    def _shared_codes(self) -> dict[str, tuple[int, ...]]:
        """Digits of the read vectors, four of neighbouring columns a word, and the unit of each; channels: the scales
        read, those chosen anew from the largest values of each warp's rows, and the inverses of these; rows: theirs."""
        vectors = self.T * self.reads
        return {
            "digits": (self.K // BAND * vectors * 4, BAND // 4),
            "units": (vectors,),
            "channels": (3, self.K),
            "channel_largest": (self.warps, self.K),
            "rows": (self.V,),
        }

    def shared(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays in shared memory, which are of :meth:`shared_dtype`. No two have one size: TileLang
        would lay them out in the order of their addresses in the compiler, in one run so and in another so."""
        made = self._shared()
        taken: set[int] = set()
        for name in sorted(made, key=lambda name: name != "keys"):  # which is clamped to its last row
            rows, *rest = made[name]
            row = STATES.get(self.shared_dtype(name), 4) * math.prod(rest)
            while rows * row in taken:
                rows += ceil_div(16, row)
            taken.add(rows * row)
            made[name] = (rows, *rest)
        return made

    def _shared(self) -> dict[str, tuple[int, ...]]:
        if self.schedule.apart:
            return self._shared_apart()
        if self.schedule.mma:
            return self._shared_mma()
        made: dict[str, tuple[int, ...]] = {}
        if self.by_channel:
            return self._shared_by_channel()
        scored = self.T > 0 and (self.history > 0 or self.T > 1)
        if scored:
            made["scores"] = (self.slots * self.lanes + self.T, self.score_stride)
        if self.resident and scored:
            made["reads"] = (self.reads, self.padded_k)
        if self.schedule.stage:
            made["tile"] = (self.state * self.schedule.threads,)
        if self.dealt:
            made["numbers"] = (1, len(self.spec.program.definitions) + 1)
        if not self.resident:
            made["reads"] = (self.T * self.reads, self.padded_k)
            made["rights"] = (self.T * self.rank, self.padded_k)
            made["numbers"] = (self.T, len(self.spec.program.definitions) + 1)
            if self.key_decay:
                made["token_decay"] = (self.T, self.padded_k)
        if FORMS[self.spec.form].folds != "never":
            staged = min(self.lanes, self.most_records)  # records at a time
            made["ring_rights"] = (staged * self.rank, self.padded_k)
            made["ring_lefts"] = (self.lanes * self.rank, self.schedule.block_v + 4)  # lanes meet no bank twice
            if self.spec.scaled:
                made["channel_largest"] = (self.groups, self.padded_k)
                made["channels"] = (self.roundings if self.sweeps > 1 else 1, self.padded_k)
            if self.key_decay:
                made["ring_decay"] = (staged, self.padded_k)
                made["decay"] = (1, self.padded_k)
        if self.spec.tree:
            made["parents"] = (1, self.T)
        return made

    def _shared_apart(self) -> dict[str, tuple[int, ...]]:
        """Those of ordinary rows, those that a fold of other rows needs, those of rows without a checkpoint."""
        return self.others | (Alone(self.spec, self.schedule).arrays if FORMS[self.spec.form].folds == "full" else {})

    @property
    def others(self) -> dict[str, tuple[int, ...]]:
        """Arrays of the code of rows that have or get a checkpoint."""
        fold = {name: shape for name, shape in self.folding.fold_arrays.items() if name not in self.fold_homes}
        return self.ordinary._shared() | fold

    @property
    def fold_arrays(self) -> dict[str, tuple[int, ...]]:
        """The arrays that a fold needs."""
        return {name: shape for name, shape in self._shared().items() if name not in NOT_FOLDED}

    @property
    def fold_homes(self) -> dict[str, tuple[str, int]]:
        """As :attr:`Alone.homes`, of what a fold needs that ordinary rows have not: inside the state in shared memory,
        which a fold has in registers."""
        own = self.ordinary._shared()
        wanted = {name: shape for name, shape in self.folding.fold_arrays.items() if name not in own}
        return housed(self, wanted, {name: own[name] for name in own if name == "state"})

    def _shared_by_channel(self) -> dict[str, tuple[int, ...]]:
        c = Channels(self.spec, self.schedule)
        made: dict[str, tuple[int, ...]] = {
            "reads": (self.T * self.reads, c.padded_k),
            "parts": (self.values, c.warps // c.quad, self.slots * self.lanes, c.quad),
            "numbers": (self.T, len(self.spec.program.definitions) + 1),
            "ring_rights": (self.most_records * self.rank, c.padded_k),
            "ring_lefts": (self.slots * self.lanes * self.rank, self.schedule.block_v + 4),
            "decay": (1, c.padded_k),
        }
        if self.T > 1:
            made["scores"] = (self.slots * self.lanes + self.T, self.score_stride)
            made["window"] = (self.values * (self.T - 1) // 2, c.warps)
        if self.schedule.stage:
            made["tile"] = (self.state * self.schedule.threads,)
        if self.spec.scaled:
            made["channel_largest"] = (self.groups, self.padded_k)
            made["channels"] = (self.roundings if self.sweeps > 1 else 1, self.padded_k)
        return made

    @property
    def shared_bytes(self) -> int:
        return sum(STATES.get(self.shared_dtype(name), 4) * math.prod(shape) for name, shape in self.shared().items())

    @property
    def pressure(self) -> int:
        """Registers with which no kernel spills: an upper bound, linear in what a lane holds at once, over what ptxas
        needed for a sample of recurrences, forms and tiles."""
        if self.schedule.apart:
            return self.ordinary.pressure
        if self.schedule.mma:
            return self._pressure_mma
        if self.by_channel:
            return self._pressure_by_channel
        spec, replayed = self.spec, self.replays or FORMS[self.spec.form].writes_state
        # A state in shared memory meets few of the token's and the records' registers.
        staged = 48 + 0.35 * self.state + 0.9 * max(0, self.state - 32)
        needed = staged if self.schedule.stage else 36 + 1.35 * self.state
        needed += 2.1 * max(1, self.slots) * self.rank * self.rows
        if spec.tokens:
            needed += self.columns * (0.4 * self.token_words + 1.15 * self.reads) + 6 * replayed
        if self.T > 1 and not spec.tree:  # whose left vectors wait in local memory
            needed += 1.5 * self.T * self.rank
        if self.slots:
            needed += 0.9 * min(32, self.values * self.batch) + 0.4 * self.columns * self.record_words * self.batch
        if not self.one_chunk:
            needed += 0.5 * self.state
        needed += (self.rows + self.columns) * spec.scaled + 24 * spec.stochastic
        needed += 12 * (spec.state == "float8_e4m3fn")
        if self.sweeps > 1:
            needed += 40 + 0.75 * self.state + 8 * self.T
        return int(needed)

    @property
    def _pressure_by_channel(self) -> int:
        """The state, records as they were read, what a lane carries of left vectors, and sums."""
        c = Channels(self.spec, self.schedule)
        needed = (32 + 1.25 * self.state) if self.schedule.stage else (16 + 1.75 * self.state)
        needed += c.depth * (c.wide * self.record_words + self.rank)
        needed += 1.5 * (self.slots * self.rank - 1) * self.rows + 4 * (self.reads + self.rank - 3)
        if self.T > 1:  # scores of a slice's records, vectors of tokens
            own = Channels(self.spec, self.schedule, True).columns
            needed += max(0, c.depth * self.values - 32) + max(0, 5 * own * self.T - 20)
        needed += (self.rows + self.columns) * self.spec.scaled + 24 * self.spec.stochastic
        needed += 12 * (self.spec.state == "float8_e4m3fn")
        if self.sweeps > 1:
            needed += 40 + 0.75 * self.state
        return int(needed)

    @property
    def _pressure_mma(self) -> int:
        """The state passes through few registers; left vectors, sums and values over V stay."""
        needed = 66 + 0.5 * self.columns * (self.token_words + self.key_rounds * self.record_words)
        needed += 6 * self.owned * self.rank * self.record_steps + 8 * self.owned * self.read_tiles + 2 * self.T
        return int(needed + 8 * (self.rank - 1))

    @cached_property
    def token_words(self) -> float:
        """32-bit words that one column of a token's inputs takes."""
        program = self.spec.program
        vectors = [*(d.expr for d in program.definitions), *program.reads, *program.rights, program.log_decay_key]
        inputs = {n.value for n in walk(*(v for v in vectors if v is not None)) if n.op == "input" and "K" in n.axes}
        parameters = {a.name for a in self.spec.recurrence.arguments if a.parameter} if self.spec.recurrence else set()
        return sum(1 if name in parameters else DTYPES[self.spec.io] / 4 for name, _ in inputs)

    @cached_property
    def record_words(self) -> float:
        """32-bit words that one column of a record takes."""
        fields = [f for f in self.spec.record_layout.fields if f.axis == "K"]
        return sum(DTYPES[f.stored(self.spec.io)] / 4 for f in fields)

    @property
    def wasteful(self) -> bool:
        """More than a quarter of the lanes' columns, or of the blocks' rows, do not exist."""
        return 3 * self.padded_k > 4 * self.K or 3 * self.tiles * self.schedule.block_v > 4 * self.V

    @property
    def stages(self) -> bool:
        """Whether a state can wait in shared memory: something goes on meanwhile, and copies are asynchronous."""
        spec = self.spec
        at_once = self.history > 0 and (self.one_chunk or self.by_channel)
        return not self.schedule.mma and at_once and not spec.scaled and not spec.tree

    @property
    def fits_mma(self) -> bool:
        """Whether tensor cores can do the products: a token or a chain of them, a state in whole strips (of int8: all
        of V in a block, in bands of columns), no log-decay but that of the head."""
        spec, s = self.spec, self.schedule
        chain = FORMS[spec.form].folds == "full" and not spec.tree and not self.replays
        if not chain or spec.layout != "VK":
            return False
        if spec.scaled and (spec.state != "int8" or s.block_v != self.V or self.parts > 1 or self.K % BAND):
            return False
        layout = spec.record_layout
        if spec.stochastic or layout.log_decay_key is not None or layout.log_decay_value is not None:
            return False
        whole = s.lanes == 16 and not self.masked_columns and not self.masked_rows and s.block_v % STRIP == 0
        return (
            whole
            and self.strips * self.parts == self.warps * self.owned
            and self.owned <= 2
            and self.K % (STRIP * self.parts) == 0
            and self.most_records <= MAX_RECORDS
            and self.read_strips <= MAX_STRIPS
        )

    def fits_apart(self, shared_limit: int) -> bool:
        """Whether rows without a checkpoint can have code of their own."""
        spec, form = self.spec, FORMS[self.spec.form]
        if spec.kv_only < 2 or not form.tokens or spec.tree or spec.scaled or spec.stochastic:
            return False
        if not self.ordinary.fits(shared_limit) or not self.folding.fits(shared_limit):
            return False
        # Not for windows: with tensor cores, nobody writes the gates that their tokens take from shared memory.
        alone = form.folds != "full" or (self.T == 1 and Alone(spec, self.schedule).possible)
        return alone and self.shared_bytes * self.schedule.ctas_per_sm <= shared_limit

    def fits(self, shared_limit: int) -> bool:
        s = self.schedule
        if s.apart:
            return self.fits_apart(shared_limit)
        if s.threads % WARP or WARP % s.lanes or s.block_v % self.groups:
            return False
        registers = 65536 // (s.threads * s.ctas_per_sm)
        if s.stage and not self.stages:
            return False
        if s.mma:
            return self.fits_mma and self.shared_bytes * s.ctas_per_sm <= shared_limit and registers >= 64
        return (
            self.rows in (1, 2, 4, 8)
            and self.rows <= s.lanes
            and self.state <= MAX_STATE
            and self.state + (24 if s.stage else 40) <= min(registers, 255)
            and self.shared_bytes * s.ctas_per_sm <= shared_limit
        )


@dataclass(frozen=True)
class Channels(Geometry):
    """The same block, its warps dealt to the channels of K (``gpu_channel``). Registers over K are ``columns`` wide:
    ``wide`` channels, or the few of them that a lane computes of a token by itself (``own``)."""

    own: bool = False

    @property
    def warps(self) -> int:
        return self.schedule.threads // WARP

    @property
    def quad(self) -> int:
        """Warps whose parts of a sum are neighbours in shared memory."""
        return min(4, self.warps)

    @property
    def wide(self) -> int:
        return 4

    @property
    def span(self) -> int:
        """Channels of a warp, those that do not exist counted."""
        padded = Geometry(self.spec, self.schedule).padded_k
        return power_of_two(ceil_div(padded, self.wide * self.warps)) * self.wide

    @property
    def across(self) -> int:
        """Neighbouring lanes that have different channels."""
        return self.span // self.wide

    @property
    def slices(self) -> int:
        return WARP // self.across

    @property
    def depth(self) -> int:
        """Records of a lane."""
        return ceil_div(self.most_records, self.slices)

    @property
    def lanes(self) -> int:
        return WARP if self.own else self.across

    @property
    def piece(self) -> int:
        return self.columns

    @property
    def columns(self) -> int:
        return max(1, self.wide // self.slices) if self.own else self.wide

    @property
    def padded_k(self) -> int:
        return self.span * self.warps


@dataclass(frozen=True)
class Alone(Geometry):
    """A block whose row has records and no checkpoint (``gpu_records``). Warps divide the records for their scores, in
    tiles of 16; ``parts`` threads share the left vectors of a record, ``depth`` records at a time."""

    @property
    def lanes(self) -> int:
        return WARP

    @property
    def gates_shared(self) -> bool:
        return False

    @property
    def records(self) -> int:
        """The most records of a row that does not fold."""
        return self.spec.kv_only - 1

    @property
    def vectors(self) -> int:
        """Read vectors of all tokens."""
        return self.T * self.reads

    @property
    def span(self) -> int:
        """Rows of V that a block serves, one a thread; blocks of further tiles have nothing to do."""
        return math.gcd(self.V, self.schedule.threads)

    @property
    def piece(self) -> int:
        """Neighbouring rows of an access to left vectors: 16 bytes."""
        return 16 // STATES[self.left_dtype]

    @property
    def rows(self) -> int:
        """Rows of V of a thread, in pieces ``parts`` pieces apart: few addresses of records for many rows."""
        return 8

    @property
    def parts(self) -> int:
        return self.span // self.rows

    @property
    def depth(self) -> int:
        return self.schedule.threads // self.parts

    @property
    def record_tiles(self) -> int:
        return ceil_div(self.records, STRIP)

    @property
    def own_tiles(self) -> int:
        """Tiles of a warp."""
        return ceil_div(self.record_tiles, self.warps)

    @property
    def rounds(self) -> int:
        """Records of a tile whose left vectors a thread has."""
        return STRIP // self.depth

    @property
    def weight_slots(self) -> int:
        """Records that a lane weighs: lane l has records l, l + 32, ..."""
        return ceil_div(self.records, WARP)

    @property
    def heads(self) -> int:
        """Value heads of a block, all of one key head, the scores of which they share before they are weighed."""
        layout, program = self.spec.record_layout, self.spec.program
        vectors = [factored(read)[1] for read in program.reads]
        vectors += [part for right in layout.rights for part in (right.vector, right.scale) if part is not None]
        shared = all(v.heads != "value" for v in vectors)
        return 2 if shared and self.T == 1 and self.spec.ratio % 2 == 0 and 2 * self.schedule.lanes <= WARP else 1

    @property
    def left_rows(self) -> int:
        """Left vectors of a tile of records, of all heads."""
        return STRIP * self.rank * self.heads

    @property
    def waiting(self) -> int:
        """Tiles of records whose left vectors wait in shared memory."""
        return min(self.record_tiles, max(1, 64 // self.left_rows))

    @property
    def together(self) -> bool:
        """Sums lie where left vectors were: one barrier more, less shared memory."""
        return self.left_dtype == "float32" and self.sums > STRIP

    @property
    def sums(self) -> int:
        """Sums of a row of V, of which ``depth`` make one read."""
        return self.depth * self.vectors * self.heads

    @property
    def homes(self) -> dict[str, tuple[str, int]]:
        """Where arrays lie that this needs, inside those of other rows' code: in which, and from which row on."""
        free = {name: shape for name, shape in self.others.items() if name != "numbers"}
        return housed(self, {name: shape for name, shape in self.needed.items() if name != "head_numbers"}, free)

    @property
    def needed(self) -> dict[str, tuple[int, ...]]:
        lefts = self.waiting * self.left_rows
        made: dict[str, tuple[int, ...]] = {
            "record_lefts": (max(lefts, self.sums) if self.together else lefts, self.span),
            "partial": (self.sums, self.span),
            "record_scores": (self.record_tiles * STRIP * self.rank, self.heads * self.pairs * 2),
            "head_numbers": (self.heads * self.T, len(self.spec.program.definitions) + 1),
        }
        return {name: shape for name, shape in made.items() if name != "partial" or not self.together}

    @property
    def pairs(self) -> int:
        """Pairs of read vectors."""
        return ceil_div(self.vectors, 2)

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for name, shape in self.needed.items() if name not in self.homes}

    @property
    def possible(self) -> bool:
        """Vectors that are inputs of 16 bits, of which tensor cores make scores; no log-decay but that of the head;
        left vectors that are fields; what a thread holds of keys fits its registers."""
        layout = self.spec.record_layout
        raw = self.read_dtype == self.key_dtype == self.spec.io != "float32"
        raw = raw and all(left.op == "field" for left in layout.lefts)
        if not raw or self.replays or layout.log_decay_key is not None or layout.log_decay_value is not None:
            return False
        if "numbers" not in self.ordinary._shared() or self.K % WARP or self.span % (2 * self.rows):
            return False
        return (
            self.span >= self.schedule.block_v
            and STRIP % self.depth == 0
            and self.vectors <= 2 * STEP
            and self.own_tiles * self.rank * self.K // 4 <= MAX_STATE
        )
