"""advance and commit, emitted from the recurrence; edits are lost.

Written by kvbuffer_codegen.schedules.triton.
"""

import triton
import triton.language as tl


@triton.jit
def index_of(table, row, words, size):
    """(value or the nearest int32, is it one of 0 .. size - 1, is it -1) of an int32 or int64 index, as int32 words."""
    low = tl.load(table + row)
    high = tl.load(table + row + words - 1)
    sign = low >> 31
    rest = tl.where(words == 1, sign, high)
    nearest = tl.where(rest < 0, -2147483648, 2147483647)
    value = tl.where(rest == sign, low, nearest)
    return value, (rest == 0) & (low >= 0) & (low < size), (rest == -1) & (low == -1)


@triton.jit
def kvb_advance_cursors_c69cb2fd(
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    form,
    buffer,
    kv_only,
    ring,
    B,
    P,
):
    row = tl.program_id(0).to(tl.int64)
    slot, known, padding = index_of(slots_ptr, row * slots_s0, slots_words, P)
    if not known:
        tl.store(cursors_ptr + 0 * cursors_s0 + P, slot, mask=padding == 0)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=padding == 0)
        return
    column = cursors_ptr + slot.to(tl.int64)
    base = tl.load(column + 0 * cursors_s0)
    n = tl.load(column + 1 * cursors_s0)
    marked = tl.load(column + 2 * cursors_s0)
    window = tl.load(column + 3 * cursors_s0)
    tl.store(column + 3 * cursors_s0, 0)
    capacity = tl.where(marked != 0, kv_only, buffer)
    if window == -1:
        return
    decoded = form == 0
    folds = (n > 0) & ((decoded == 0) | (n + 1 > capacity))
    added = tl.where(decoded, 1, 0)
    marked = tl.where(form == 1, 0, marked)
    tl.store(column + 0 * cursors_s0, tl.where(folds, (base + n) % ring, base))
    tl.store(column + 1 * cursors_s0, tl.where(folds, 0, n) + added)
    tl.store(column + 2 * cursors_s0, tl.where(folds, 0, marked))


@triton.jit
def kvb_commit_cursors_c69cb2fd(
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    accepted_ptr,
    accepted_s0,
    accepted_words,
    buffer,
    kv_only,
    ring,
    B,
    P,
):
    row = tl.program_id(0).to(tl.int64)
    slot, known, padding = index_of(slots_ptr, row * slots_s0, slots_words, P)
    if not known:
        tl.store(cursors_ptr + 0 * cursors_s0 + P, slot, mask=padding == 0)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=padding == 0)
        return
    column = cursors_ptr + slot.to(tl.int64)
    base = tl.load(column + 0 * cursors_s0)
    n = tl.load(column + 1 * cursors_s0)
    marked = tl.load(column + 2 * cursors_s0)
    window = tl.load(column + 3 * cursors_s0)
    tl.store(column + 3 * cursors_s0, 0)
    capacity = tl.where(marked != 0, kv_only, buffer)
    if window <= 0:
        return
    accepted, good, _ = index_of(accepted_ptr, row * accepted_s0, accepted_words, window + 1)
    faults = column + 4 * cursors_s0
    tl.store(faults, tl.load(faults) | 4, mask=good == 0)
    folds = (n > 0) & (n + window > capacity)
    added = tl.where(good, accepted, 0)
    tl.store(column + 0 * cursors_s0, tl.where(folds, (base + n) % ring, base))
    tl.store(column + 1 * cursors_s0, tl.where(folds, 0, n) + added)
    tl.store(column + 2 * cursors_s0, tl.where(folds, 0, marked))


# made of: null
