// Runs generated CUDA source on a CPU: one block after another, one fiber per thread, warps in lockstep at shuffles.
//
// A test tool. It checks what a CPU can check: index arithmetic, shuffles, barriers, numbers. Shared memory starts as NaN, threads run in
// ascending or descending order (a missing barrier shows in one of them), a shuffle or barrier that some threads of a warp or block do
// not reach is reported, and misaligned vector accesses trap (compile with -fsanitize=alignment -fsanitize-trap=alignment).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __global__
#define __shared__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

using std::max;
using std::min;
typedef unsigned int uint;
typedef unsigned char uchar;
struct dim3 { int x, y, z; };

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(4) uint1 { uint x; };
struct alignas(2) uchar2 { uchar x, y; };
struct alignas(4) uchar4 { uchar x, y, z, w; };
struct alignas(2) char2 { char x, y; };
struct alignas(4) char4 { char x, y, z, w; };
struct alignas(8) uint2 { uint x, y; };
struct alignas(16) uint4 { uint x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

inline uint float_bits(float f) { uint u; memcpy(&u, &f, 4); return u; }
inline float bits_float(uint u) { float f; memcpy(&f, &u, 4); return f; }

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  explicit bfloat16_t(float f) {
    uint u = float_bits(f);
    bits = f != f ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;  // to nearest, ties to even
  }
  explicit bfloat16_t(int i) : bfloat16_t(float(i)) {}
  operator float() const { return bits_float(uint(bits) << 16); }
};

struct half_t {
  uint16_t bits;
  half_t() = default;
  explicit half_t(float f) {
    uint u = float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) bits = 0x7fff;
    else if (magnitude >= 0x477ff000) bits = sign | 0x7c00;  // 65520 and above round to infinity
    else if (magnitude < 0x38800000) bits = sign | uint(std::nearbyint(std::ldexp(double(bits_float(magnitude)), 24)));
    else bits = sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  explicit half_t(int i) : half_t(float(i)) {}
  operator float() const {
    uint sign = uint(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return bits_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) return (sign ? -1 : 1) * std::ldexp(float(fraction), -24);
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  }
};

struct alignas(4) __nv_bfloat162 { bfloat16_t x, y; };
struct alignas(4) __half2 { half_t x, y; };
typedef __half2 half2;
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {bfloat16_t(v.x), bfloat16_t(v.y)}; }
inline __half2 __float22half2_rn(float2 v) { return {half_t(v.x), half_t(v.y)}; }

alignas(1024) uchar buf_dyn_shmem[256 * 1024];
static dim3 blockIdx, threadIdx, blockDim;

namespace emulator {
enum State { RUNS, AT_SHUFFLE, AT_BARRIER, DONE };
struct Words { uint word[6]; };
struct Copy { void* to; const void* from; int bytes, group; bool wanted; };
struct Fiber { ucontext_t context; std::vector<char> stack; State state; Words brought; std::vector<Copy> copies; int groups; };
static std::vector<Fiber> fibers;
static std::vector<Words> snapshot;  // what the lanes of a warp brought to the last shuffle that all of them reached
static ucontext_t scheduler;
static int current;
static void (*body)();

inline void wait(State state) {
  fibers[current].state = state;
  int self = current;
  swapcontext(&fibers[self].context, &scheduler);
}

inline void entry() { body(); wait(DONE); }

template <class F> F exchange(F value, int source) {  // source: a lane of the warp
  static_assert(sizeof(F) == 4);
  memcpy(fibers[current].brought.word, &value, 4);
  wait(AT_SHUFFLE);
  memcpy(&value, snapshot[current / 32 * 32 + source].word, 4);
  return value;
}

// Lets every warp or block that waits as a whole go on; false where nobody can.
inline bool release() {
  int threads = fibers.size(), released = 0, at_barrier = 0;
  for (int w = 0; w < threads; w += 32) {
    bool whole = true;
    for (int i = w; i < w + 32; ++i) whole &= fibers[i].state == AT_SHUFFLE;
    for (int i = w; whole && i < w + 32; ++i) { snapshot[i] = fibers[i].brought; fibers[i].state = RUNS; ++released; }
  }
  for (Fiber& f : fibers) at_barrier += f.state == AT_BARRIER;
  if (at_barrier == threads) for (Fiber& f : fibers) { f.state = RUNS; ++released; }
  return released > 0;
}

// 0, or 1 where threads wait for others that will not come.
inline int run(void (*f)(), long long blocks, int threads, bool descending) {
  body = f;
  fibers.resize(threads);
  snapshot.resize(threads);
  blockDim = {threads, 1, 1};
  for (Fiber& fiber : fibers) fiber.stack.resize(1 << 17);
  for (long long block = 0; block < blocks; ++block) {
    blockIdx = {int(block), 0, 0};
    memset(buf_dyn_shmem, 0xff, sizeof buf_dyn_shmem);
    for (Fiber& fiber : fibers) {
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, entry, 0);
      fiber.state = RUNS;
      fiber.copies.clear();
      fiber.groups = 0;
    }
    for (;;) {
      int done = 0;
      for (int i = 0; i < threads; ++i) {
        current = descending ? threads - 1 - i : i;
        threadIdx = {current, 0, 0};
        if (fibers[current].state == RUNS) swapcontext(&scheduler, &fibers[current].context);
        done += fibers[current].state == DONE;
      }
      if (done == threads) break;
      if (!release()) return 1;
    }
  }
  return 0;
}

template <class T> T from_slot(uint64_t slot) { T value; memcpy(&value, &slot, sizeof value); return value; }
template <class... A, size_t... I>
void call(void (*kernel)(A...), const uint64_t* slots, std::index_sequence<I...>) { kernel(from_slot<A>(slots[I])...); }
template <class... A> void call(void (*kernel)(A...), const uint64_t* slots) { call(kernel, slots, std::index_sequence_for<A...>()); }
}  // namespace emulator

inline void __syncthreads() { emulator::wait(emulator::AT_BARRIER); }
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x >= 1 ? 1 : x > 0 ? x : 0; }
inline int __float2int_rn(float x) {
  double whole = std::nearbyint(double(x));
  return x != x ? 0 : whole >= 0x7fffffff ? 0x7fffffff : whole <= -2147483648.0 ? INT32_MIN : int(whole);
}
inline uint __byte_perm(uint a, uint b, uint selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint made = 0;
  for (int i = 0; i < 4; ++i) made |= uint(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return made;
}
template <class F> F __shfl_xor_sync(uint, F v, int mask, int = 32) { return emulator::exchange(v, threadIdx.x % 32 ^ mask); }
template <class F> F __shfl_sync(uint, F v, int lane, int width = 32) {
  return emulator::exchange(v, threadIdx.x % 32 / width * width + lane % width);
}
template <class F> F __shfl_down_sync(uint, F v, int delta, int width = 32) {
  int lane = threadIdx.x % 32;
  return emulator::exchange(v, lane % width + delta < width ? lane + delta : lane);
}
inline void __syncwarp() { emulator::wait(emulator::AT_SHUFFLE); }

namespace tl {
// A copy is done where its thread waits for it, as late as may be.
template <int bytes> void cp_async_gs_conditional(void* to, const void* from, bool wanted) {  // zeros where it is not
  if (uint64_t(to) % bytes || uint64_t(from) % bytes) __builtin_trap();
  emulator::Fiber& f = emulator::fibers[emulator::current];
  f.copies.push_back({to, from, bytes, f.groups, wanted});
}
template <int bytes> void cp_async_gs(void* to, const void* from) { cp_async_gs_conditional<bytes>(to, from, true); }
inline void cp_async_commit() { ++emulator::fibers[emulator::current].groups; }
template <int groups> void cp_async_wait() {  // for all groups that are committed but the latest
  emulator::Fiber& f = emulator::fibers[emulator::current];
  std::vector<emulator::Copy> left;
  for (emulator::Copy c : f.copies)
    if (c.group + groups >= f.groups) left.push_back(c);
    else if (c.wanted) memcpy(c.to, c.from, c.bytes);
    else memset(c.to, 0, c.bytes);
  f.copies.swap(left);
}

// Tiles of 8 x 8 16-bit values; lane l points to row l % 8 of tile l / 8, lane (g, t) gets row g, columns 2 t and 2 t + 1 of each, or of
// transposed ones column g, rows 2 t and 2 t + 1.
inline void load_matrices(const void* from, void* to, int tiles, bool transposed) {
  if (uint64_t(from) % 16) __builtin_trap();
  emulator::Words& mine = emulator::fibers[emulator::current].brought;
  memcpy(mine.word, &from, sizeof from);
  emulator::wait(emulator::AT_SHUFFLE);
  int lane = emulator::current % 32, g = lane / 4, t = lane % 4;
  uint16_t* result = (uint16_t*)to;
  const uint16_t* row[32];
  for (int i = 0; i < 32; ++i) memcpy(&row[i], emulator::snapshot[emulator::current / 32 * 32 + i].word, sizeof row[i]);
  for (int tile = 0; tile < tiles; ++tile)
    for (int e = 0; e < 2; ++e) result[2 * tile + e] = transposed ? row[8 * tile + 2 * t + e][g] : row[8 * tile + g][2 * t + e];
}
inline void ptx_ldmatrix_x2(const void* from, void* to) { load_matrices(from, to, 2, false); }
inline void ptx_ldmatrix_x4(const void* from, void* to) { load_matrices(from, to, 4, false); }
inline void ptx_ldmatrix_x4_trans(const void* from, void* to) { load_matrices(from, to, 4, true); }

// D += A B, A by rows, B by columns: m16n8k8 of tf32 (what is below its 11 bits is cut off), m16n8k16 of two 16-bit values a word, all
// in float32, or m16n8k32 of four int8 a word, in int32. Lane (g, t) brings words t and t + 4 of rows g and g + 8 of A, and of column g
// of B.
enum class DataType { kTensorFloat32, kFloat32, kFloat16, kBFloat16, kInt8, kInt32 };
template <DataType type> double product(uint a, uint b) {
  if constexpr (type == DataType::kTensorFloat32) return double(bits_float(a & 0xffffe000)) * bits_float(b & 0xffffe000);
  typedef std::conditional_t<type == DataType::kFloat16, half_t, std::conditional_t<type == DataType::kInt8, int8_t, bfloat16_t>> part;
  part x[4 / sizeof(part)], y[4 / sizeof(part)];
  memcpy(x, &a, 4), memcpy(y, &b, 4);
  double sum = 0;
  for (unsigned i = 0; i < 4 / sizeof(part); ++i) sum += double(x[i]) * double(y[i]);
  return sum;
}
template <DataType type, DataType, DataType, int m, int n, int k, bool, bool, class D>
void mma_sync(D* d, const unsigned* a, const unsigned* b) {
  static_assert(m == 16 && n == 8 && k == (type == DataType::kTensorFloat32 ? 8 : type == DataType::kInt8 ? 32 : 16));
  emulator::Words& mine = emulator::fibers[emulator::current].brought;
  for (int i = 0; i < 4; ++i) mine.word[i] = a[i];
  for (int i = 0; i < 2; ++i) mine.word[4 + i] = b[i];
  emulator::wait(emulator::AT_SHUFFLE);
  const emulator::Words* warp = &emulator::snapshot[emulator::current / 32 * 32];
  int lane = emulator::current % 32;
  for (int i = 0; i < 4; ++i) {
    int row = lane / 4, column = lane % 4 * 2 + i % 2;
    double sum = d[i];
    for (int j = 0; j < 8; ++j) {
      const uint *left = warp[row * 4 + j % 4].word, *right = warp[column * 4 + j % 4].word;
      sum += product<type>(left[i / 2 + j / 4 * 2], right[4 + j / 4]);
    }
    d[i] = D(sum);
  }
}
}  // namespace tl
