"""C++ around the cell function that TileLang emits for a CPU.

TileLang's C target knows neither threads nor 16-bit floats that vectorise: a program computes one grid cell, and what
is here makes it a self-contained source with one entry, ``int32_t entry(const uint64_t* args, const int64_t* grid)``,
that runs ``grid[0]`` cells on the threads of OpenMP. Pointers and integers travel in 64-bit slots, in the order of
``arguments``; a float32 argument is the low 32 bits of its slot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: g++ vectorises the plain loops of a cell. Its own float16 (before version 14) and libm's expf would keep a loop
#: scalar, so both are written out here, free of branches.
PROLOGUE = r"""#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

template <typename To, typename From>
static inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the bits of one value as another");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

#if defined(__AVX512FP16__)
typedef _Float16 half;
#elif defined(__aarch64__)
typedef __fp16 half;
#else
// IEEE binary16 in integer arithmetic, rounding to nearest even.
struct half {
  uint16_t bits;
  half() = default;
  explicit half(float value) {
    const uint32_t u = bits_as<uint32_t>(value), size = u & 0x7fffffffu;
    const uint32_t normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;
    // Below 2^-14 the addition itself rounds to the spacing of subnormals, 2^-24.
    const uint32_t subnormal = bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - 0x3f000000u;
    const uint32_t finite = size < 0x38800000u ? subnormal : normal;
    const uint32_t huge = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    bits = (uint16_t)(((u >> 16) & 0x8000u) | (size >= 0x47800000u ? huge : finite));
  }
  operator float() const {
    const uint32_t size = (uint32_t)(bits & 0x7fffu) << 13;
    const uint32_t normal = (size + 0x38000000u) | (size >= 0x0f800000u ? 0x7f800000u : 0u);  // infinity and NaN
    const uint32_t subnormal = bits_as<uint32_t>((float)(int32_t)(bits & 0x3ffu) * 0x1p-24f);
    return bits_as<float>(((uint32_t)(bits & 0x8000u) << 16) | (size < 0x00800000u ? subnormal : normal));
  }
};
#endif

// A line of `count` float16 values to float32 and back, each place given by a base and a distance in bytes. In pieces
// of the width that gcc's loops load: what is stored in halves stalls the load of the whole.
static inline void widen(void* to, int64_t to_byte, const void* from, int64_t from_byte, int64_t count) {
  float* wide = (float*)((char*)to + to_byte);
  const half* narrow = (const half*)((const char*)from + from_byte);
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(wide + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(narrow + i))));
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(wide + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(narrow + i))));
#endif
  for (; i < count; ++i) wide[i] = (float)narrow[i];
}

static inline void narrow(void* to, int64_t to_byte, const void* from, int64_t from_byte, int64_t count) {
  half* narrow = (half*)((char*)to + to_byte);
  const float* wide = (const float*)((const char*)from + from_byte);
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256((__m256i*)(narrow + i), _mm512_cvtps_ph(_mm512_loadu_ps(wide + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i*)(narrow + i), _mm256_cvtps_ph(_mm256_loadu_ps(wide + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < count; ++i) narrow[i] = (half)wide[i];
}

// The line at `byte` bytes past `base` is asked for; it may lie past the tensor's end.
static inline void prefetch(const void* base, int64_t byte) { __builtin_prefetch((const char*)base + byte, 0, 2); }

static inline float power_of_two(int32_t n) { return bits_as<float>((n + 127) << 23); }

// e^x to 1.5 ulp (polynomial of Cephes' expf); 0 at -infinity, infinity above 88.73, NaN stays NaN.
static inline float exp_float(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float n = __builtin_rintf(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t whole = (int32_t)n, part = whole >> 1;  // 2^whole in two steps: it may lie outside float's exponents
  return p * power_of_two(part) * power_of_two(whole - part);
}
"""

_C_TYPES = {"int32": "int32_t", "int64": "int64_t", "float32": "float"}


def cpu_source(emitted: str, emitted_name: str, entry: str, parameters: Sequence[tuple[str, str]]) -> str:
    """The whole source of one CPU kernel.

    ``emitted`` is what TileLang's C target printed, ``emitted_name`` the function in it; ``parameters`` are that
    function's, in order, as (kind, dtype): "pointer" (dtype unused), "integer", or "cell", the number of the grid cell.
    """
    definition = re.search(rf"^int32_t {re.escape(emitted_name)}\(([^)]*)\) \{{\n(.*?)^\}}\n", emitted, re.M | re.S)
    if definition is None:
        raise ValueError(f"no definition of {emitted_name} in the emitted C source")
    # No form lets a tensor that is written overlap another one, so loops need no checks for it.
    declared = definition[1].replace("* ", "* __restrict__ ")
    body = re.sub(r"\bexpf\(", "exp_float(", definition[2])
    # TileLang takes the address of what it reinterprets, which need not have one.
    body = re.sub(r"\*\((\w+) \*\)\(&\(", r"bits_as<\1>((", body)
    return "\n".join(
        (
            PROLOGUE,
            f"static inline void {entry}_cell({declared}) {{",
            re.sub(r"^  return 0;\n\Z", "", body, flags=re.M) + "}\n",
            f'extern "C" int32_t {entry}(const uint64_t* args, const int64_t* grid) {{',
            # A cell that folds takes several times as long as its neighbours; pieces keep what they read together.
            "  const int64_t pieces = 8 * (int64_t)omp_get_max_threads();",
            "  const int64_t piece = grid[0] < pieces ? 1 : grid[0] / pieces;",
            "#pragma omp parallel for schedule(dynamic, piece) if (grid[0] > 1)",
            "  for (int64_t cell = 0; cell < grid[0]; ++cell) {",
            f"    {entry}_cell({', '.join(_unpacked(parameters, declared))});",
            "  }",
            "  return 0;",
            "}\n",
        )
    )


def _unpacked(parameters: Sequence[tuple[str, str]], declared: str) -> list[str]:
    types = [text.rsplit(" ", 1)[0].replace(" __restrict__", "").strip() for text in declared.split(",")]
    values, slot = [], 0
    for (kind, dtype), c_type in zip(parameters, types, strict=True):
        if kind == "cell":
            values.append("(int32_t)cell")
            continue
        if kind == "pointer":
            values.append(f"({c_type})args[{slot}]")
        elif dtype == "float32":
            values.append(f"*(const float*)&args[{slot}]")
        else:
            values.append(f"({_C_TYPES[dtype]})args[{slot}]")
        slot += 1
    return values
