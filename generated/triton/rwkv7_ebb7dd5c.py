"""rwkv7: step, decode, flush and verify of any size, emitted from the recurrence; edits are lost.

Written by kvbuffer_codegen.schedules.triton. A record: record_left0 (float32), record_left1 (float32), record_right0 (float32), record_k (io), record_log_decay_key (float32).
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
def exp(x):
    """Saturates below float32's largest value."""
    return tl.exp(tl.minimum(x, 88.72))


@triton.jit
def softplus(x):
    """max(x, 0) + log(1 + e), e = exp(-|x|), as 2 atanh(e / (2 + e)): no digit of a small e is lost."""
    e = tl.exp(-tl.abs(x))
    s = e / (2.0 + e)
    z = s * s
    series = z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15)))))
    series = 1.0 + z * (1 / 3 + z * (1 / 5 + series))
    return tl.maximum(x, 0.0) + 2.0 * s * series


@triton.jit
def tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    far = tl.where(x < 0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)
    z = x * x
    near = x * (1.0 + z * (-1 / 3 + z * (2 / 15 + z * (-17 / 315 + z * (62 / 2835)))))
    return tl.where(tl.abs(x) < 0.25, near, far)


@triton.jit
def bfloat16(x):
    """To nearest even in bfloat16, within its finite range."""
    return tl.clamp(x, -3.3895313892515355e+38, 3.3895313892515355e+38).to(tl.bfloat16).to(tl.float32)


@triton.jit
def kvb_step_rwkv7_ebb7dd5c(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_left1_ptr,
    record_left1_s0,
    record_left1_s1,
    record_left1_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_k_ptr,
    record_k_s0,
    record_k_s1,
    record_k_s2,
    record_log_decay_key_ptr,
    record_log_decay_key_s0,
    record_log_decay_key_s1,
    record_log_decay_key_s2,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    r_ptr,
    r_s0,
    r_s1,
    k_ptr,
    k_s0,
    k_s1,
    v_ptr,
    v_s0,
    v_s1,
    w_ptr,
    w_s0,
    w_s1,
    a_ptr,
    a_s0,
    a_s1,
    kappa_ptr,
    kappa_s0,
    kappa_s1,
    out_ptr,
    out_s0,
    out_s1,
    B,
    P,
    N,
    R,
    HV,
    K: tl.constexpr,
    V: tl.constexpr,
    RATIO: tl.constexpr,
    KEY_MAJOR: tl.constexpr,
    HAS_KV_ONLY: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    cell = tl.program_id(0)
    tiles: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    tile = cell % tiles
    head = (cell // tiles % HV).to(tl.int64)
    key_head = head // RATIO
    row = (cell // tiles // HV).to(tl.int64)
    first = (head == 0) & (tile == 0)  # this program reports for the row
    k = tl.arange(0, BLOCK_K)
    v = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = k < K
    in_v = v < V
    width_K = tl.full((), K, tl.float32)
    width_V = tl.full((), V, tl.float32)

    slot, known, no_slot = index_of(slots_ptr, row * slots_s0, slots_words, P)
    ring, ringed, no_ring = index_of(rings_ptr, row * rings_s0, rings_words, N)
    slot = slot.to(tl.int64)
    ring = ring.to(tl.int64)
    if not (known & ringed):
        report = first & (tl.where(known, no_ring, no_slot) == 0)
        tl.store(cursors_ptr + 3 * cursors_s0 + slot, -1, mask=first & known)
        tl.store(cursors_ptr + 0 * cursors_s0 + P, tl.where(known, ring, slot), mask=report)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=report)
        tl.store(out_ptr + row * out_s0 + head * out_s1 + v, tl.zeros([BLOCK_V], tl.float32), mask=in_v)
        return
    base = tl.load(cursors_ptr + 0 * cursors_s0 + slot)
    n = tl.minimum(tl.load(cursors_ptr + 1 * cursors_s0 + slot), R)
    has_state = n >= 0  # every row, but for those that a kernel with kv_only finds marked
    if HAS_KV_ONLY:
        has_state = tl.load(cursors_ptr + 2 * cursors_s0 + slot) == 0

    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_left1 = record_left1_ptr + ring * record_left1_s0 + head * record_left1_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + head * record_right0_s2
    record_k = record_k_ptr + ring * record_k_s0 + head * record_k_s2
    record_log_decay_key = record_log_decay_key_ptr + ring * record_log_decay_key_s0 + head * record_log_decay_key_s2
    since_k = tl.zeros([BLOCK_K], tl.float32)
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_left1 = tl.load(record_left1 + at * record_left1_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_k = tl.load(record_k + at * record_k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay_key = tl.load(record_log_decay_key + at * record_log_decay_key_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        left = f_record_left1
        right = tl.where(in_k, f_record_k, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        since_k += tl.where(in_k, f_record_log_decay_key, 0.0)
    S = total + S * tl.exp(since_k)[None, :]

    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    S = stored.to(tl.float32)

    x_r = tl.load(r_ptr + row * r_s0 + head * r_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_k = tl.load(k_ptr + row * k_s0 + head * k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_v = tl.load(v_ptr + row * v_s0 + head * v_s1 + v, mask=in_v, other=0.0).to(tl.float32)
    x_w = tl.load(w_ptr + row * w_s0 + head * w_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_a = tl.load(a_ptr + row * a_s0 + head * a_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_kappa = tl.load(kappa_ptr + row * kappa_s0 + head * kappa_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    n_c0 = tl.sum(tl.where(in_k, x_kappa * x_kappa, 0.0), 0)
    n_c1 = 1.0 / tl.sqrt_rn(n_c0 + 1e-12)
    e0 = x_kappa * n_c1
    e1 = e0 * x_a
    n_c2 = tl.sum(tl.where(in_k, e1 * x_r, 0.0), 0)
    n_c3 = tl.sum(tl.where(in_k, x_k * x_r, 0.0), 0)
    x = tl.where(in_k, e0, 0.0)
    read0 = tl.sum(S * x[None, :], 1)
    e2 = (-0.6065306597126334) * tl.sigmoid(x_w)
    x = tl.where(in_k, exp(e2) * x_r, 0.0)
    read1 = tl.sum(S * x[None, :], 1)
    left0 = -read0
    left1 = x_v
    tl.store(out_ptr + row * out_s0 + head * out_s1 + v, (read1 + (left0 * n_c2)) + (x_v * n_c3), mask=in_v)
    S = S * tl.exp(tl.where(in_k, e2, 0.0))[None, :]
    right = tl.where(in_k, e1, 0.0)
    S += left0[:, None] * right[None, :]
    right = tl.where(in_k, x_k, 0.0)
    S += left1[:, None] * right[None, :]
    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    tl.debug_barrier()
    tl.store(checkpoint, stored, mask=inside)


@triton.jit
def kvb_decode_rwkv7_ebb7dd5c(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_left1_ptr,
    record_left1_s0,
    record_left1_s1,
    record_left1_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_k_ptr,
    record_k_s0,
    record_k_s1,
    record_k_s2,
    record_log_decay_key_ptr,
    record_log_decay_key_s0,
    record_log_decay_key_s1,
    record_log_decay_key_s2,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    r_ptr,
    r_s0,
    r_s1,
    k_ptr,
    k_s0,
    k_s1,
    v_ptr,
    v_s0,
    v_s1,
    w_ptr,
    w_s0,
    w_s1,
    a_ptr,
    a_s0,
    a_s1,
    kappa_ptr,
    kappa_s0,
    kappa_s1,
    out_ptr,
    out_s0,
    out_s1,
    B,
    P,
    N,
    R,
    HV,
    K: tl.constexpr,
    V: tl.constexpr,
    RATIO: tl.constexpr,
    KEY_MAJOR: tl.constexpr,
    BUFFER: tl.constexpr,
    KV_CAPACITY: tl.constexpr,
    HAS_KV_ONLY: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    cell = tl.program_id(0)
    tiles: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    tile = cell % tiles
    head = (cell // tiles % HV).to(tl.int64)
    key_head = head // RATIO
    row = (cell // tiles // HV).to(tl.int64)
    first = (head == 0) & (tile == 0)  # this program reports for the row
    k = tl.arange(0, BLOCK_K)
    v = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = k < K
    in_v = v < V
    width_K = tl.full((), K, tl.float32)
    width_V = tl.full((), V, tl.float32)

    slot, known, no_slot = index_of(slots_ptr, row * slots_s0, slots_words, P)
    ring, ringed, no_ring = index_of(rings_ptr, row * rings_s0, rings_words, N)
    slot = slot.to(tl.int64)
    ring = ring.to(tl.int64)
    if not (known & ringed):
        report = first & (tl.where(known, no_ring, no_slot) == 0)
        tl.store(cursors_ptr + 3 * cursors_s0 + slot, -1, mask=first & known)
        tl.store(cursors_ptr + 0 * cursors_s0 + P, tl.where(known, ring, slot), mask=report)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=report)
        tl.store(out_ptr + row * out_s0 + head * out_s1 + v, tl.zeros([BLOCK_V], tl.float32), mask=in_v)
        return
    base = tl.load(cursors_ptr + 0 * cursors_s0 + slot)
    n = tl.minimum(tl.load(cursors_ptr + 1 * cursors_s0 + slot), R)
    has_state = n >= 0  # every row, but for those that a kernel with kv_only finds marked
    if HAS_KV_ONLY:
        has_state = tl.load(cursors_ptr + 2 * cursors_s0 + slot) == 0

    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_left1 = record_left1_ptr + ring * record_left1_s0 + head * record_left1_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + head * record_right0_s2
    record_k = record_k_ptr + ring * record_k_s0 + head * record_k_s2
    record_log_decay_key = record_log_decay_key_ptr + ring * record_log_decay_key_s0 + head * record_log_decay_key_s2
    since_k = tl.zeros([BLOCK_K], tl.float32)
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_left1 = tl.load(record_left1 + at * record_left1_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_k = tl.load(record_k + at * record_k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay_key = tl.load(record_log_decay_key + at * record_log_decay_key_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        left = f_record_left1
        right = tl.where(in_k, f_record_k, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        since_k += tl.where(in_k, f_record_log_decay_key, 0.0)
    S = total + S * tl.exp(since_k)[None, :]

    capacity = tl.where(has_state, BUFFER, KV_CAPACITY)
    if (n > 0) & (n + 1 > capacity):
        stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
        tl.debug_barrier()
        tl.store(checkpoint, stored, mask=inside)
        S = stored.to(tl.float32)

    x_r = tl.load(r_ptr + row * r_s0 + head * r_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_k = tl.load(k_ptr + row * k_s0 + head * k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_v = tl.load(v_ptr + row * v_s0 + head * v_s1 + v, mask=in_v, other=0.0).to(tl.float32)
    x_w = tl.load(w_ptr + row * w_s0 + head * w_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_a = tl.load(a_ptr + row * a_s0 + head * a_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_kappa = tl.load(kappa_ptr + row * kappa_s0 + head * kappa_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    n_c0 = tl.sum(tl.where(in_k, x_kappa * x_kappa, 0.0), 0)
    n_c1 = 1.0 / tl.sqrt_rn(n_c0 + 1e-12)
    e0 = x_kappa * n_c1
    e1 = e0 * x_a
    n_c2 = tl.sum(tl.where(in_k, e1 * x_r, 0.0), 0)
    n_c3 = tl.sum(tl.where(in_k, x_k * x_r, 0.0), 0)
    x = tl.where(in_k, e0, 0.0)
    read0 = tl.sum(S * x[None, :], 1)
    e2 = (-0.6065306597126334) * tl.sigmoid(x_w)
    x = tl.where(in_k, exp(e2) * x_r, 0.0)
    read1 = tl.sum(S * x[None, :], 1)
    left0 = -read0
    left1 = x_v
    tl.store(out_ptr + row * out_s0 + head * out_s1 + v, (read1 + (left0 * n_c2)) + (x_v * n_c3), mask=in_v)
    at = ((base + n) % R).to(tl.int64)
    tl.store(record_left0 + at * record_left0_s1 + v, left0, mask=in_v)
    tl.store(record_left1 + at * record_left1_s1 + v, left1, mask=in_v)
    tl.store(record_right0 + at * record_right0_s1 + k, e1, mask=in_k & (tile == 0))
    tl.store(record_k + at * record_k_s1 + k, x_k, mask=in_k & (tile == 0))
    tl.store(record_log_decay_key + at * record_log_decay_key_s1 + k, e2, mask=in_k & (tile == 0))


@triton.jit
def kvb_flush_rwkv7_ebb7dd5c(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    state_s3,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_left0_s3,
    record_left1_ptr,
    record_left1_s0,
    record_left1_s1,
    record_left1_s2,
    record_left1_s3,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_right0_s3,
    record_k_ptr,
    record_k_s0,
    record_k_s1,
    record_k_s2,
    record_k_s3,
    record_log_decay_key_ptr,
    record_log_decay_key_s0,
    record_log_decay_key_s1,
    record_log_decay_key_s2,
    record_log_decay_key_s3,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    B,
    P,
    N,
    R,
    HV,
    K: tl.constexpr,
    V: tl.constexpr,
    RATIO: tl.constexpr,
    KEY_MAJOR: tl.constexpr,
    HAS_KV_ONLY: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    cell = tl.program_id(0)
    tiles: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    tile = cell % tiles
    head = (cell // tiles % HV).to(tl.int64)
    key_head = head // RATIO
    row = (cell // tiles // HV % B).to(tl.int64)
    layer = (cell // tiles // HV // B).to(tl.int64)
    first = (head == 0) & (tile == 0)  # this program reports for the row
    k = tl.arange(0, BLOCK_K)
    v = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = k < K
    in_v = v < V
    width_K = tl.full((), K, tl.float32)
    width_V = tl.full((), V, tl.float32)

    slot, known, no_slot = index_of(slots_ptr, row * slots_s0, slots_words, P)
    ring, ringed, no_ring = index_of(rings_ptr, row * rings_s0, rings_words, N)
    slot = slot.to(tl.int64)
    ring = ring.to(tl.int64)
    if not (known & ringed):
        report = first & (tl.where(known, no_ring, no_slot) == 0)
        tl.store(cursors_ptr + 3 * cursors_s0 + slot, -1, mask=first & known)
        tl.store(cursors_ptr + 0 * cursors_s0 + P, tl.where(known, ring, slot), mask=report)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=report)
        return
    base = tl.load(cursors_ptr + 0 * cursors_s0 + slot)
    n = tl.minimum(tl.load(cursors_ptr + 1 * cursors_s0 + slot), R)
    has_state = n >= 0  # every row, but for those that a kernel with kv_only finds marked
    if HAS_KV_ONLY:
        has_state = tl.load(cursors_ptr + 2 * cursors_s0 + slot) == 0
    if n == 0:
        return

    checkpoint = state_ptr + layer * state_s0 + slot * state_s1 + head * state_s2
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s3 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s3 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + layer * record_left0_s0 + ring * record_left0_s1 + head * record_left0_s3
    record_left1 = record_left1_ptr + layer * record_left1_s0 + ring * record_left1_s1 + head * record_left1_s3
    record_right0 = record_right0_ptr + layer * record_right0_s0 + ring * record_right0_s1 + head * record_right0_s3
    record_k = record_k_ptr + layer * record_k_s0 + ring * record_k_s1 + head * record_k_s3
    record_log_decay_key = record_log_decay_key_ptr + layer * record_log_decay_key_s0 + ring * record_log_decay_key_s1 + head * record_log_decay_key_s3
    since_k = tl.zeros([BLOCK_K], tl.float32)
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s2 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_left1 = tl.load(record_left1 + at * record_left1_s2 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_k = tl.load(record_k + at * record_k_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay_key = tl.load(record_log_decay_key + at * record_log_decay_key_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        left = f_record_left1
        right = tl.where(in_k, f_record_k, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        since_k += tl.where(in_k, f_record_log_decay_key, 0.0)
    S = total + S * tl.exp(since_k)[None, :]

    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    tl.debug_barrier()
    tl.store(checkpoint, stored, mask=inside)


@triton.jit
def kvb_verify_rwkv7_ebb7dd5c(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_left1_ptr,
    record_left1_s0,
    record_left1_s1,
    record_left1_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_k_ptr,
    record_k_s0,
    record_k_s1,
    record_k_s2,
    record_log_decay_key_ptr,
    record_log_decay_key_s0,
    record_log_decay_key_s1,
    record_log_decay_key_s2,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    lengths_ptr,
    lengths_s0,
    lengths_words,
    r_ptr,
    r_s0,
    r_s1,
    r_s2,
    k_ptr,
    k_s0,
    k_s1,
    k_s2,
    v_ptr,
    v_s0,
    v_s1,
    v_s2,
    w_ptr,
    w_s0,
    w_s1,
    w_s2,
    a_ptr,
    a_s0,
    a_s1,
    a_s2,
    kappa_ptr,
    kappa_s0,
    kappa_s1,
    kappa_s2,
    out_ptr,
    out_s0,
    out_s1,
    out_s2,
    B,
    P,
    N,
    R,
    HV,
    K: tl.constexpr,
    V: tl.constexpr,
    RATIO: tl.constexpr,
    KEY_MAJOR: tl.constexpr,
    BUFFER: tl.constexpr,
    KV_CAPACITY: tl.constexpr,
    WINDOW: tl.constexpr,
    HAS_KV_ONLY: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    cell = tl.program_id(0)
    tiles: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    tile = cell % tiles
    head = (cell // tiles % HV).to(tl.int64)
    key_head = head // RATIO
    row = (cell // tiles // HV).to(tl.int64)
    first = (head == 0) & (tile == 0)  # this program reports for the row
    k = tl.arange(0, BLOCK_K)
    v = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = k < K
    in_v = v < V
    width_K = tl.full((), K, tl.float32)
    width_V = tl.full((), V, tl.float32)

    slot, known, no_slot = index_of(slots_ptr, row * slots_s0, slots_words, P)
    ring, ringed, no_ring = index_of(rings_ptr, row * rings_s0, rings_words, N)
    slot = slot.to(tl.int64)
    ring = ring.to(tl.int64)
    if not (known & ringed):
        report = first & (tl.where(known, no_ring, no_slot) == 0)
        tl.store(cursors_ptr + 3 * cursors_s0 + slot, -1, mask=first & known)
        tl.store(cursors_ptr + 0 * cursors_s0 + P, tl.where(known, ring, slot), mask=report)
        tl.store(cursors_ptr + 4 * cursors_s0 + P, 1, mask=report)
        for t in range(WINDOW):
            tl.store(out_ptr + row * out_s0 + t * out_s1 + head * out_s2 + v, tl.zeros([BLOCK_V], tl.float32), mask=in_v)
        return
    base = tl.load(cursors_ptr + 0 * cursors_s0 + slot)
    n = tl.minimum(tl.load(cursors_ptr + 1 * cursors_s0 + slot), R)
    has_state = n >= 0  # every row, but for those that a kernel with kv_only finds marked
    if HAS_KV_ONLY:
        has_state = tl.load(cursors_ptr + 2 * cursors_s0 + slot) == 0
    length, good, _ = index_of(lengths_ptr, row * lengths_s0, lengths_words, WINDOW + 1)
    length = tl.where(good, length, 0)
    tl.store(cursors_ptr + 3 * cursors_s0 + slot, length, mask=first)
    faults = cursors_ptr + 4 * cursors_s0 + slot
    tl.store(faults, tl.load(faults) | 2, mask=first & (good == 0))
    if length == 0:
        for t in range(WINDOW):
            tl.store(out_ptr + row * out_s0 + t * out_s1 + head * out_s2 + v, tl.zeros([BLOCK_V], tl.float32), mask=in_v)
        return

    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_left1 = record_left1_ptr + ring * record_left1_s0 + head * record_left1_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + head * record_right0_s2
    record_k = record_k_ptr + ring * record_k_s0 + head * record_k_s2
    record_log_decay_key = record_log_decay_key_ptr + ring * record_log_decay_key_s0 + head * record_log_decay_key_s2
    since_k = tl.zeros([BLOCK_K], tl.float32)
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_left1 = tl.load(record_left1 + at * record_left1_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_k = tl.load(record_k + at * record_k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay_key = tl.load(record_log_decay_key + at * record_log_decay_key_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        left = f_record_left1
        right = tl.where(in_k, f_record_k, 0.0) * tl.exp(since_k)
        total += left[:, None] * right[None, :]
        since_k += tl.where(in_k, f_record_log_decay_key, 0.0)
    S = total + S * tl.exp(since_k)[None, :]

    capacity = tl.where(has_state, BUFFER, KV_CAPACITY)
    if (n > 0) & (n + length > capacity):
        stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
        tl.debug_barrier()
        tl.store(checkpoint, stored, mask=inside)
        S = stored.to(tl.float32)

    for t in range(WINDOW):
        x_r = tl.load(r_ptr + row * r_s0 + t * r_s1 + head * r_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_k = tl.load(k_ptr + row * k_s0 + t * k_s1 + head * k_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_v = tl.load(v_ptr + row * v_s0 + t * v_s1 + head * v_s2 + v, mask=in_v, other=0.0).to(tl.float32)
        x_w = tl.load(w_ptr + row * w_s0 + t * w_s1 + head * w_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_a = tl.load(a_ptr + row * a_s0 + t * a_s1 + head * a_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_kappa = tl.load(kappa_ptr + row * kappa_s0 + t * kappa_s1 + head * kappa_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        n_c0 = tl.sum(tl.where(in_k, x_kappa * x_kappa, 0.0), 0)
        n_c1 = 1.0 / tl.sqrt_rn(n_c0 + 1e-12)
        e0 = x_kappa * n_c1
        e1 = e0 * x_a
        n_c2 = tl.sum(tl.where(in_k, e1 * x_r, 0.0), 0)
        n_c3 = tl.sum(tl.where(in_k, x_k * x_r, 0.0), 0)
        x = tl.where(in_k, e0, 0.0)
        read0 = tl.sum(S * x[None, :], 1)
        e2 = (-0.6065306597126334) * tl.sigmoid(x_w)
        x = tl.where(in_k, exp(e2) * x_r, 0.0)
        read1 = tl.sum(S * x[None, :], 1)
        left0 = -read0
        left1 = x_v
        tl.store(out_ptr + row * out_s0 + t * out_s1 + head * out_s2 + v, tl.where(t < length, (read1 + (left0 * n_c2)) + (x_v * n_c3), 0.0), mask=in_v)
        at = ((base + n + t) % R).to(tl.int64)
        tl.store(record_left0 + at * record_left0_s1 + v, left0, mask=in_v & (t < length))
        tl.store(record_left1 + at * record_left1_s1 + v, left1, mask=in_v & (t < length))
        tl.store(record_right0 + at * record_right0_s1 + k, e1, mask=in_k & (tile == 0) & (t < length))
        tl.store(record_k + at * record_k_s1 + k, x_k, mask=in_k & (tile == 0) & (t < length))
        tl.store(record_log_decay_key + at * record_log_decay_key_s1 + k, e2, mask=in_k & (tile == 0) & (t < length))
        S = S * tl.exp(tl.where(in_k, e2, 0.0))[None, :]
        right = tl.where(in_k, e1, 0.0)
        S += left0[:, None] * right[None, :]
        right = tl.where(in_k, x_k, 0.0)
        S += left1[:, None] * right[None, :]


# made of: {"arguments": [["r", "Channel", 0], ["k", "Channel", 0], ["v", "Value", 0], ["w", "Channel", 0], ["a", "Channel", 0], ["kappa", "Channel", 0]], "log_decay": [null, 10, null], "name": "rwkv7", "nodes": [["input", [], ["kappa", null], ["K"], "value"], ["mul", [0, 0], null, ["K"], "value"], ["sum", [1], null, [], "value"], ["const", [], 1e-12, [], "none"], ["add", [2, 3], null, [], "value"], ["rsqrt", [4], null, [], "value"], ["mul", [0, 5], null, ["K"], "value"], ["const", [], -0.6065306597126334, [], "none"], ["input", [], ["w", null], ["K"], "value"], ["sigmoid", [8], null, ["K"], "value"], ["mul", [7, 9], null, ["K"], "value"], ["exp", [10], null, ["K"], "value"], ["input", [], ["r", null], ["K"], "value"], ["mul", [11, 12], null, ["K"], "value"], ["read", [], 0, ["V"], "value"], ["neg", [14], null, ["V"], "value"], ["input", [], ["v", null], ["V"], "value"], ["input", [], ["a", null], ["K"], "value"], ["mul", [6, 17], null, ["K"], "value"], ["input", [], ["k", null], ["K"], "value"], ["read", [], 1, ["V"], "value"], ["left", [], 0, ["V"], "value"], ["mul", [18, 12], null, ["K"], "value"], ["sum", [22], null, [], "value"], ["mul", [21, 23], null, ["V"], "value"], ["add", [20, 24], null, ["V"], "value"], ["mul", [19, 12], null, ["K"], "value"], ["sum", [26], null, [], "value"], ["mul", [16, 27], null, ["V"], "value"], ["add", [25, 28], null, ["V"], "value"]], "output": 29, "reads": [6, 13], "writes": [[15, 18], [16, 19]]}
