"""mamba2: step, decode, flush and verify of any size, emitted from the recurrence; edits are lost.

Written by kvbuffer_codegen.schedules.triton. A record: record_left0 (float32), record_right0 (float32), record_log_decay (float32).
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
def kvb_step_mamba2_7456ff6d(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_log_decay_ptr,
    record_log_decay_s0,
    record_log_decay_s1,
    record_log_decay_s2,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    q_ptr,
    q_s0,
    q_s1,
    k_ptr,
    k_s0,
    k_s1,
    v_ptr,
    v_s0,
    v_s1,
    dt_ptr,
    dt_s0,
    dt_s1,
    A_log_ptr,
    A_log_s0,
    dt_bias_ptr,
    dt_bias_s0,
    D_ptr,
    D_s0,
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

    x_A_log = tl.load(A_log_ptr + head * A_log_s0).to(tl.float32)
    x_dt_bias = tl.load(dt_bias_ptr + head * dt_bias_s0).to(tl.float32)
    x_D = tl.load(D_ptr + head * D_s0).to(tl.float32)
    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + key_head * record_right0_s2
    record_log_decay = record_log_decay_ptr + ring * record_log_decay_s0 + head * record_log_decay_s2
    since_s = 0.0
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay = tl.load(record_log_decay + at * record_log_decay_s1).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_s)
        total += left[:, None] * right[None, :]
        since_s += f_record_log_decay
    S = total + S * tl.exp(since_s)

    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    S = stored.to(tl.float32)

    x_q = tl.load(q_ptr + row * q_s0 + key_head * q_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_k = tl.load(k_ptr + row * k_s0 + key_head * k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_v = tl.load(v_ptr + row * v_s0 + head * v_s1 + v, mask=in_v, other=0.0).to(tl.float32)
    x_dt = tl.load(dt_ptr + row * dt_s0 + head * dt_s1).to(tl.float32)
    n_c0 = exp(x_A_log)
    n_c1 = softplus(x_dt + x_dt_bias)
    n_c2 = (-n_c0) * n_c1
    n_c3 = exp(n_c2)
    n_c4 = tl.sum(tl.where(in_k, x_k * x_q, 0.0), 0)
    n_c5 = x_D
    x = tl.where(in_k, x_q, 0.0)
    read0 = tl.sum(S * x[None, :], 1)
    e0 = n_c1 * x_v
    left0 = e0
    tl.store(out_ptr + row * out_s0 + head * out_s1 + v, ((n_c3 * read0) + (e0 * n_c4)) + (n_c5 * x_v), mask=in_v)
    S = S * tl.exp(n_c2)
    right = tl.where(in_k, x_k, 0.0)
    S += left0[:, None] * right[None, :]
    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    tl.debug_barrier()
    tl.store(checkpoint, stored, mask=inside)


@triton.jit
def kvb_decode_mamba2_7456ff6d(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_log_decay_ptr,
    record_log_decay_s0,
    record_log_decay_s1,
    record_log_decay_s2,
    cursors_ptr,
    cursors_s0,
    slots_ptr,
    slots_s0,
    slots_words,
    rings_ptr,
    rings_s0,
    rings_words,
    q_ptr,
    q_s0,
    q_s1,
    k_ptr,
    k_s0,
    k_s1,
    v_ptr,
    v_s0,
    v_s1,
    dt_ptr,
    dt_s0,
    dt_s1,
    A_log_ptr,
    A_log_s0,
    dt_bias_ptr,
    dt_bias_s0,
    D_ptr,
    D_s0,
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

    x_A_log = tl.load(A_log_ptr + head * A_log_s0).to(tl.float32)
    x_dt_bias = tl.load(dt_bias_ptr + head * dt_bias_s0).to(tl.float32)
    x_D = tl.load(D_ptr + head * D_s0).to(tl.float32)
    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + key_head * record_right0_s2
    record_log_decay = record_log_decay_ptr + ring * record_log_decay_s0 + head * record_log_decay_s2
    since_s = 0.0
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay = tl.load(record_log_decay + at * record_log_decay_s1).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_s)
        total += left[:, None] * right[None, :]
        since_s += f_record_log_decay
    S = total + S * tl.exp(since_s)

    capacity = tl.where(has_state, BUFFER, KV_CAPACITY)
    if (n > 0) & (n + 1 > capacity):
        stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
        tl.debug_barrier()
        tl.store(checkpoint, stored, mask=inside)
        S = stored.to(tl.float32)

    x_q = tl.load(q_ptr + row * q_s0 + key_head * q_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_k = tl.load(k_ptr + row * k_s0 + key_head * k_s1 + k, mask=in_k, other=0.0).to(tl.float32)
    x_v = tl.load(v_ptr + row * v_s0 + head * v_s1 + v, mask=in_v, other=0.0).to(tl.float32)
    x_dt = tl.load(dt_ptr + row * dt_s0 + head * dt_s1).to(tl.float32)
    n_c0 = exp(x_A_log)
    n_c1 = softplus(x_dt + x_dt_bias)
    n_c2 = (-n_c0) * n_c1
    n_c3 = exp(n_c2)
    n_c4 = tl.sum(tl.where(in_k, x_k * x_q, 0.0), 0)
    n_c5 = x_D
    x = tl.where(in_k, x_q, 0.0)
    read0 = tl.sum(S * x[None, :], 1)
    e0 = n_c1 * x_v
    left0 = e0
    tl.store(out_ptr + row * out_s0 + head * out_s1 + v, ((n_c3 * read0) + (e0 * n_c4)) + (n_c5 * x_v), mask=in_v)
    at = ((base + n) % R).to(tl.int64)
    tl.store(record_left0 + at * record_left0_s1 + v, left0, mask=in_v)
    tl.store(record_right0 + at * record_right0_s1 + k, x_k, mask=in_k & (tile == 0) & (head % RATIO == 0))
    tl.store(record_log_decay + at * record_log_decay_s1, n_c2, mask=(tile == 0))


@triton.jit
def kvb_flush_mamba2_7456ff6d(
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
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_right0_s3,
    record_log_decay_ptr,
    record_log_decay_s0,
    record_log_decay_s1,
    record_log_decay_s2,
    record_log_decay_s3,
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
    record_right0 = record_right0_ptr + layer * record_right0_s0 + ring * record_right0_s1 + key_head * record_right0_s3
    record_log_decay = record_log_decay_ptr + layer * record_log_decay_s0 + ring * record_log_decay_s1 + head * record_log_decay_s3
    since_s = 0.0
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s2 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay = tl.load(record_log_decay + at * record_log_decay_s2).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_s)
        total += left[:, None] * right[None, :]
        since_s += f_record_log_decay
    S = total + S * tl.exp(since_s)

    stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
    tl.debug_barrier()
    tl.store(checkpoint, stored, mask=inside)


@triton.jit
def kvb_verify_mamba2_7456ff6d(
    state_ptr,
    state_s0,
    state_s1,
    state_s2,
    record_left0_ptr,
    record_left0_s0,
    record_left0_s1,
    record_left0_s2,
    record_right0_ptr,
    record_right0_s0,
    record_right0_s1,
    record_right0_s2,
    record_log_decay_ptr,
    record_log_decay_s0,
    record_log_decay_s1,
    record_log_decay_s2,
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
    q_ptr,
    q_s0,
    q_s1,
    q_s2,
    k_ptr,
    k_s0,
    k_s1,
    k_s2,
    v_ptr,
    v_s0,
    v_s1,
    v_s2,
    dt_ptr,
    dt_s0,
    dt_s1,
    dt_s2,
    A_log_ptr,
    A_log_s0,
    dt_bias_ptr,
    dt_bias_s0,
    D_ptr,
    D_s0,
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

    x_A_log = tl.load(A_log_ptr + head * A_log_s0).to(tl.float32)
    x_dt_bias = tl.load(dt_bias_ptr + head * dt_bias_s0).to(tl.float32)
    x_D = tl.load(D_ptr + head * D_s0).to(tl.float32)
    checkpoint = state_ptr + slot * state_s0 + head * state_s1
    if KEY_MAJOR:
        checkpoint = checkpoint + k[None, :] * state_s2 + v[:, None]
    else:
        checkpoint = checkpoint + v[:, None] * state_s2 + k[None, :]
    inside = in_v[:, None] & in_k[None, :]
    S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)

    record_left0 = record_left0_ptr + ring * record_left0_s0 + head * record_left0_s2
    record_right0 = record_right0_ptr + ring * record_right0_s0 + key_head * record_right0_s2
    record_log_decay = record_log_decay_ptr + ring * record_log_decay_s0 + head * record_log_decay_s2
    since_s = 0.0
    total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)
    for j in range(n):  # the newest record first
        at = ((base + n - 1 - j) % R).to(tl.int64)
        f_record_left0 = tl.load(record_left0 + at * record_left0_s1 + v, mask=in_v, other=0.0).to(tl.float32)
        f_record_right0 = tl.load(record_right0 + at * record_right0_s1 + k, mask=in_k, other=0.0).to(tl.float32)
        f_record_log_decay = tl.load(record_log_decay + at * record_log_decay_s1).to(tl.float32)
        left = f_record_left0
        right = tl.where(in_k, f_record_right0, 0.0) * tl.exp(since_s)
        total += left[:, None] * right[None, :]
        since_s += f_record_log_decay
    S = total + S * tl.exp(since_s)

    capacity = tl.where(has_state, BUFFER, KV_CAPACITY)
    if (n > 0) & (n + length > capacity):
        stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)
        tl.debug_barrier()
        tl.store(checkpoint, stored, mask=inside)
        S = stored.to(tl.float32)

    for t in range(WINDOW):
        x_q = tl.load(q_ptr + row * q_s0 + t * q_s1 + key_head * q_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_k = tl.load(k_ptr + row * k_s0 + t * k_s1 + key_head * k_s2 + k, mask=in_k, other=0.0).to(tl.float32)
        x_v = tl.load(v_ptr + row * v_s0 + t * v_s1 + head * v_s2 + v, mask=in_v, other=0.0).to(tl.float32)
        x_dt = tl.load(dt_ptr + row * dt_s0 + t * dt_s1 + head * dt_s2).to(tl.float32)
        n_c0 = exp(x_A_log)
        n_c1 = softplus(x_dt + x_dt_bias)
        n_c2 = (-n_c0) * n_c1
        n_c3 = exp(n_c2)
        n_c4 = tl.sum(tl.where(in_k, x_k * x_q, 0.0), 0)
        n_c5 = x_D
        x = tl.where(in_k, x_q, 0.0)
        read0 = tl.sum(S * x[None, :], 1)
        e0 = n_c1 * x_v
        left0 = e0
        tl.store(out_ptr + row * out_s0 + t * out_s1 + head * out_s2 + v, tl.where(t < length, ((n_c3 * read0) + (e0 * n_c4)) + (n_c5 * x_v), 0.0), mask=in_v)
        at = ((base + n + t) % R).to(tl.int64)
        tl.store(record_left0 + at * record_left0_s1 + v, left0, mask=in_v & (t < length))
        tl.store(record_right0 + at * record_right0_s1 + k, x_k, mask=in_k & (tile == 0) & (head % RATIO == 0) & (t < length))
        tl.store(record_log_decay + at * record_log_decay_s1, n_c2, mask=(tile == 0) & (t < length))
        S = S * tl.exp(n_c2)
        right = tl.where(in_k, x_k, 0.0)
        S += left0[:, None] * right[None, :]


# made of: {"arguments": [["q", "Key", 0], ["k", "Key", 0], ["v", "Value", 0], ["dt", "Scalar", 0], ["A_log", "HeadScalar", 0], ["dt_bias", "HeadScalar", 0], ["D", "HeadScalar", 0]], "log_decay": [11, null, null], "name": "mamba2", "nodes": [["input", [], ["q", null], ["K"], "key"], ["input", [], ["dt", null], [], "value"], ["input", [], ["dt_bias", null], [], "value"], ["add", [1, 2], null, [], "value"], ["softplus", [3], null, [], "value"], ["input", [], ["v", null], ["V"], "value"], ["mul", [4, 5], null, ["V"], "value"], ["input", [], ["k", null], ["K"], "key"], ["input", [], ["A_log", null], [], "value"], ["exp", [8], null, [], "value"], ["neg", [9], null, [], "value"], ["mul", [10, 4], null, [], "value"], ["exp", [11], null, [], "value"], ["read", [], 0, ["V"], "value"], ["mul", [12, 13], null, ["V"], "value"], ["mul", [7, 0], null, ["K"], "key"], ["sum", [15], null, [], "key"], ["mul", [6, 16], null, ["V"], "value"], ["add", [14, 17], null, ["V"], "value"], ["input", [], ["D", null], [], "value"], ["mul", [19, 5], null, ["V"], "value"], ["add", [18, 20], null, ["V"], "value"]], "output": 21, "reads": [0], "writes": [[6, 7]]}
