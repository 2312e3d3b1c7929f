#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/instruction/mma.h>
#include <tl_templates/cuda/copy.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void kvb_decode_gated_delta_rule_2bbd6a9e(const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ a, const bfloat16_t* __restrict__ b, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t a_s0, int64_t a_s1, int64_t b_s0, int64_t b_s1, int64_t k_s0, int64_t k_s1, int64_t q_s0, int64_t q_s1, int64_t v_s0, int64_t v_s1, const float* __restrict__ A_log, const float* __restrict__ dt_bias, int64_t A_log_s0, int64_t dt_bias_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, float* __restrict__ record_log_decay, float* __restrict__ record_scale0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, int64_t record_log_decay_s0, int64_t record_log_decay_s1, int64_t record_log_decay_s2, int64_t record_scale0_s0, int64_t record_scale0_s1, int64_t record_scale0_s2, float* __restrict__ state_channels, float* __restrict__ state_rows, int64_t state_channels_s0, int64_t state_channels_s1, int64_t state_rows_s0, int64_t state_rows_s1, signed char* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1);
extern "C" __global__ void __launch_bounds__(128, 4) kvb_decode_gated_delta_rule_2bbd6a9e(const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ a, const bfloat16_t* __restrict__ b, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t a_s0, int64_t a_s1, int64_t b_s0, int64_t b_s1, int64_t k_s0, int64_t k_s1, int64_t q_s0, int64_t q_s1, int64_t v_s0, int64_t v_s1, const float* __restrict__ A_log, const float* __restrict__ dt_bias, int64_t A_log_s0, int64_t dt_bias_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, float* __restrict__ record_log_decay, float* __restrict__ record_scale0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, int64_t record_log_decay_s0, int64_t record_log_decay_s1, int64_t record_log_decay_s2, int64_t record_scale0_s0, int64_t record_scale0_s1, int64_t record_scale0_s2, float* __restrict__ state_channels, float* __restrict__ state_rows, int64_t state_channels_s0, int64_t state_channels_s1, int64_t state_rows_s0, int64_t state_rows_s1, signed char* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1) {
  cudaGridDependencySynchronize();
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* state_1 = ((void*)((char*)buf_dyn_shmem + 0));
  void* keys = ((void*)((char*)buf_dyn_shmem + 18432));
  void* v_1 = ((void*)((char*)buf_dyn_shmem + 23056));
  void* v_2 = ((void*)((char*)buf_dyn_shmem + 25104));
  void* v_3 = ((void*)((char*)buf_dyn_shmem + 26640));
  void* v_4 = ((void*)((char*)buf_dyn_shmem + 27696));
  void* reads = ((void*)((char*)buf_dyn_shmem + 28720));
  void* v_5 = ((void*)((char*)buf_dyn_shmem + 29264));
  void* weights = ((void*)((char*)buf_dyn_shmem + 29776));
  void* v_6 = ((void*)((char*)buf_dyn_shmem + 29856));
  void* v_7 = ((void*)((char*)buf_dyn_shmem + 29904));
  float buffer[1];
  bfloat16_t buffer_1[1];
  float buffer_2[1];
  bfloat16_t buffer_3[8];
  bfloat16_t buffer_4[8];
  bfloat16_t buffer_5[1];
  float v_8[1];
  float v_9[1];
  float raw[2];
  float v_10[16];
  float raw_1[2];
  float raw_2[2];
  float raw_3[2];
  float raw_4[2];
  float raw_5[2];
  float raw_6[2];
  float raw_7[2];
  bfloat16_t buffer_6[1];
  float scales[8];
  float buffer_7[1];
  float buffer_8[1];
  float buffer_9[1];
  float buffer_10[1];
  float buffer_11[1];
  float buffer_12[1];
  float partial[3];
  float buffer_13[1];
  float buffer_14[1];
  float buffer_15[1];
  float buffer_16[1];
  float buffer_17[1];
  float buffer_18[1];
  float v_11[16];
  bfloat16_t values[8];
  bfloat16_t values_1[8];
  bfloat16_t values_2[8];
  float x[8];
  int most[1];
  float x_1[8];
  int exponent[1];
  uint words[4];
  int most_1[1];
  float x_2[8];
  int exponent_1[1];
  uint words_1[4];
  float v_12[1];
  float other[1];
  float buffer_19[8];
  float decay[1];
  signed char zeros[16];
  float rows[4];
  int head[1];
  float values_3[6];
  uint part[8];
  uint part_1[8];
  uint part_2[8];
  float values_4[6];
  float values_5[6];
  float values_6[6];
  float values_7[6];
  float values_8[6];
  float values_9[6];
  float values_10[6];
  float old[4];
  float values_11[16];
  float most_2[1];
  float inverse[4];
  float x_3[8];
  int most_3[1];
  float x_4[8];
  int exponent_2[1];
  uint words_2[4];
  float buffer_20[8];
  float v_13[4];
  float v_14[4];
  float v_15[8];
  float v_16[8];
  float v_17[4];
  float v_18[4];
  float v_19[8];
  float v_20[8];
  signed char zeros_1[16];
  signed char raw_8[16];
  signed char codes[128];
  float buffer_21[8];
  int sums[8];
  uint digits[4];
  float parts[8];
  float pair[2];
  float pair_1[2];
  float read[1];
  float read_1[1];
  float v_21[1];
  float v_22[8];
  signed char codes_1[16];
  float scales_1[4];
  float buffer_22[16];
  uint v_23[4];
  float most_4[4];
  float sent[2];
  signed char codes_2[16];
  float scales_2[4];
  float buffer_23[16];
  uint v_24[4];
  float scales_3[4];
  signed char codes_3[16];
  float scales_4[4];
  float buffer_24[16];
  uint v_25[4];
  float scales_5[4];
  float code[1];
  signed char coded[4];
  float buffer_25[8];
  uint v_26[4];
  uint v_27[4];
  uint v_28[4];
  uint v_29[4];
  float v_30[1];
  float v_31[1];
  float v_32[1];
  int slot = slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))];
  int slot_rest = ((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]);
  int ring = rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))];
  int ring_rest = ((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]);
  int count = cursors[int64_t((max(min(slot, P), 0) + ((int)cursors_s0)))];
  int base = cursors[int64_t(max(min(slot, P), 0))];
  int kv_only = cursors[int64_t(((((int)cursors_s0) * 2) + max(min(slot, P), 0)))];
  if ((((((slot_rest == 0) && (0 <= slot)) && (slot < P)) && (ring_rest == 0)) && (0 <= ring)) && (ring < N)) {
    if (((int)threadIdx.x) < 32) {
      buffer[0] = A_log[int64_t(((((int)blockIdx.x) % HV) * ((int)A_log_s0)))];
      buffer_1[0] = a[int64_t((((((int)blockIdx.x) / HV) * ((int)a_s0)) + ((((int)blockIdx.x) % HV) * ((int)a_s1))))];
      buffer_2[0] = dt_bias[int64_t(((((int)blockIdx.x) % HV) * ((int)dt_bias_s0)))];
      *(uint4*)(buffer_3 + 0) = *(uint4*)(k + int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)k_s0))) + (((((int)blockIdx.x) % HV) / 2) * ((int)k_s1)))));
      *(uint4*)(buffer_4 + 0) = *(uint4*)(q + int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)q_s0))) + (((((int)blockIdx.x) % HV) / 2) * ((int)q_s1)))));
      buffer_5[0] = b[int64_t((((((int)blockIdx.x) / HV) * ((int)b_s0)) + ((((int)blockIdx.x) % HV) * ((int)b_s1))))];
    }
    tl::cp_async_gs_conditional<16>((&(((bfloat16_t*)keys)[(((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8))])), (&(record_k[((int64_t((((((int)threadIdx.x) & 15) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) >> 4), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) >> 4), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_k_s1))))])), ((((int)threadIdx.x) >> 4) < count));
    tl::cp_async_gs_conditional<16>((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8)) + 1088)])), (&(record_k[((int64_t((((((int)threadIdx.x) & 15) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) >> 4) + 8), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) >> 4) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_k_s1))))])), (((((int)threadIdx.x) >> 4) + 8) < count));
    tl::cp_async_commit();
    if ((((int)threadIdx.x) >> 5) == 3) {
      v_8[0] = record_log_decay[((int64_t(((((int)blockIdx.x) % HV) * ((int)record_log_decay_s2))) + (((int64_t)ring) * record_log_decay_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_log_decay_s1))))];
      v_9[0] = record_scale0[((int64_t((((((int)blockIdx.x) % HV) / 2) * ((int)record_scale0_s2))) + (((int64_t)ring) * record_scale0_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_scale0_s1))))];
    }
    *(float2*)(raw + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[0] = raw[0];
    v_10[1] = raw[1];
    *(float2*)(raw_1 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[8] = raw_1[0];
    v_10[9] = raw_1[1];
    *(float2*)(raw_2 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[2] = raw_2[0];
    v_10[3] = raw_2[1];
    *(float2*)(raw_3 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[10] = raw_3[0];
    v_10[11] = raw_3[1];
    *(float2*)(raw_4 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[4] = raw_4[0];
    v_10[5] = raw_4[1];
    *(float2*)(raw_5 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[12] = raw_5[0];
    v_10[13] = raw_5[1];
    *(float2*)(raw_6 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[6] = raw_6[0];
    v_10[7] = raw_6[1];
    *(float2*)(raw_7 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_10[14] = raw_7[0];
    v_10[15] = raw_7[1];
    buffer_6[0] = v[int64_t(((((((int)blockIdx.x) / HV) * ((int)v_s0)) + ((((int)blockIdx.x) % HV) * ((int)v_s1))) + ((int)threadIdx.x)))];
    if ((32 <= ((int)threadIdx.x)) && (((int)threadIdx.x) < 64)) {
      *(uint4*)(buffer_3 + 0) = *(uint4*)(k + int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)k_s0))) + (((((int)blockIdx.x) % HV) / 2) * ((int)k_s1)))));
      *(uint4*)(buffer_4 + 0) = *(uint4*)(q + int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)q_s0))) + (((((int)blockIdx.x) % HV) / 2) * ((int)q_s1)))));
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        *(float4*)(scales + (m * 4)) = *(float4*)(state_channels + (int64_t(((((((int)threadIdx.x) & 15) * 8) + (m * 4)) + ((((int)blockIdx.x) % HV) * ((int)state_channels_s1)))) + (((int64_t)slot) * state_channels_s0)));
      }
    }
    if ((((int)threadIdx.x) & 31) < 8) {
      tl::cp_async_gs<16>((&(((float*)v_5)[(((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) * 4))])), (&(state_rows[(int64_t(((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) * 4)) + ((((int)blockIdx.x) % HV) * ((int)state_rows_s1)))) + (((int64_t)slot) * state_rows_s0))])));
    }
    __syncwarp();
    tl::cp_async_gs<16>((&(((signed char*)state_1)[((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16))])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + ((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 576)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 4) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1152)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 8) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1728)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 12) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2304)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 16) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2880)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 20) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 3456)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 24) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((signed char*)state_1)[(((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 4032)])), (&(state[(int64_t(((((((int)threadIdx.x) & 7) * 16) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 28) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_commit();
    if (((int)threadIdx.x) < 32) {
      buffer_7[0] = expf(min(buffer[0], 0x1.62e148p+6f/*8.872000e+01*/));
      buffer_8[0] = max((((float)buffer_1[0]) + buffer_2[0]), log1pf(expf(min((((float)buffer_1[0]) + buffer_2[0]), 0x1.4p+4f/*2.000000e+01*/))));
      buffer_9[0] = ((0x0p+0f/*0.000000e+00*/ - buffer_7[0]) * buffer_8[0]);
      buffer_10[0] = rsqrtf(0x1p+7f/*1.280000e+02*/);
      buffer_11[0] = __fdividef(0x1p+0f/*1.000000e+00*/, (0x1p+0f/*1.000000e+00*/ + expf((((float)buffer_5[0]) * -0x1p+0f/*-1.000000e+00*/))));
      buffer_12[0] = expf(min(buffer_9[0], 0x1.62e148p+6f/*8.872000e+01*/));
      partial[0] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int c = 0; c < 8; ++c) {
        partial[0] = (partial[0] + (((float)buffer_3[c]) * ((float)buffer_3[c])));
      }
      partial[1] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int c_1 = 0; c_1 < 8; ++c_1) {
        partial[1] = (partial[1] + (((float)buffer_4[c_1]) * ((float)buffer_4[c_1])));
      }
      partial[2] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int c_2 = 0; c_2 < 8; ++c_2) {
        partial[2] = (partial[2] + (((float)buffer_3[c_2]) * ((float)buffer_4[c_2])));
      }
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 8, 32));
      partial[1] = (partial[1] + __shfl_xor_sync((uint)4294967295, partial[1], 8, 32));
      partial[2] = (partial[2] + __shfl_xor_sync((uint)4294967295, partial[2], 8, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 4, 32));
      partial[1] = (partial[1] + __shfl_xor_sync((uint)4294967295, partial[1], 4, 32));
      partial[2] = (partial[2] + __shfl_xor_sync((uint)4294967295, partial[2], 4, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 2, 32));
      partial[1] = (partial[1] + __shfl_xor_sync((uint)4294967295, partial[1], 2, 32));
      partial[2] = (partial[2] + __shfl_xor_sync((uint)4294967295, partial[2], 2, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 1, 32));
      partial[1] = (partial[1] + __shfl_xor_sync((uint)4294967295, partial[1], 1, 32));
      partial[2] = (partial[2] + __shfl_xor_sync((uint)4294967295, partial[2], 1, 32));
      buffer_13[0] = partial[0];
      buffer_14[0] = partial[1];
      buffer_15[0] = partial[2];
      buffer_16[0] = rsqrtf((buffer_13[0] + 0x1.0c6f7ap-20f/*1.000000e-06*/));
      buffer_17[0] = rsqrtf((buffer_14[0] + 0x1.0c6f7ap-20f/*1.000000e-06*/));
      buffer_18[0] = ((buffer_16[0] * (buffer_17[0] * buffer_10[0])) * buffer_15[0]);
      #pragma unroll
      for (int c_3 = 0; c_3 < 8; ++c_3) {
        v_11[c_3] = ((float)buffer_3[c_3]);
      }
      #pragma unroll
      for (int c_4 = 0; c_4 < 8; ++c_4) {
        v_11[(c_4 + 8)] = ((float)buffer_4[c_4]);
      }
      #pragma unroll
      for (int c_5 = 0; c_5 < 8; ++c_5) {
        v_22[c_5] = (((float)buffer_3[c_5]) * buffer_16[0]);
      }
      if (((int)threadIdx.x) < 16) {
        if (((((int)blockIdx.x) % HV) % 2) == 0) {
          #pragma unroll
          for (int c_6 = 0; c_6 < 8; ++c_6) {
            values[c_6] = ((bfloat16_t)((float)buffer_3[c_6]));
          }
          *(uint4*)(record_k + ((int64_t(((((int)threadIdx.x) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(base + count)), ((uint)((base + count) - R)))) * int64_t(((uint)record_k_s1))))) = *(uint4*)(values + 0);
          if (((int)threadIdx.x) == 0) {
            record_scale0[((int64_t((((((int)blockIdx.x) % HV) / 2) * ((int)record_scale0_s2))) + (((int64_t)ring) * record_scale0_s0)) + (int64_t(min(((uint)(base + count)), ((uint)((base + count) - R)))) * int64_t(((uint)record_scale0_s1))))] = buffer_16[0];
          }
        }
        if (((int)threadIdx.x) == 0) {
          record_log_decay[((int64_t(((((int)blockIdx.x) % HV) * ((int)record_log_decay_s2))) + (((int64_t)ring) * record_log_decay_s0)) + (int64_t(min(((uint)(base + count)), ((uint)((base + count) - R)))) * int64_t(((uint)record_log_decay_s1))))] = buffer_9[0];
        }
        #pragma unroll
        for (int c_7 = 0; c_7 < 8; ++c_7) {
          values_1[c_7] = buffer_3[c_7];
        }
        *(uint4*)(((bfloat16_t*)reads) + (((int)threadIdx.x) * 8)) = *(uint4*)(values_1 + 0);
        #pragma unroll
        for (int c_8 = 0; c_8 < 8; ++c_8) {
          values_1[c_8] = buffer_4[c_8];
        }
        *(uint4*)(((bfloat16_t*)reads) + ((((int)threadIdx.x) * 8) + 136)) = *(uint4*)(values_1 + 0);
        #pragma unroll
        for (int c_9 = 0; c_9 < 8; ++c_9) {
          values_2[c_9] = buffer_3[c_9];
        }
        *(uint4*)(((bfloat16_t*)keys) + ((((int)threadIdx.x) * 8) + 2176)) = *(uint4*)(values_2 + 0);
        if (((int)threadIdx.x) == 0) {
          ((float*)v_6)[0] = buffer_7[0];
        }
        if (((int)threadIdx.x) == 1) {
          ((float*)v_6)[1] = buffer_8[0];
        }
        if (((int)threadIdx.x) == 2) {
          ((float*)v_6)[2] = buffer_9[0];
        }
        if (((int)threadIdx.x) == 3) {
          ((float*)v_6)[3] = buffer_13[0];
        }
        if (((int)threadIdx.x) == 4) {
          ((float*)v_6)[4] = buffer_16[0];
        }
        if (((int)threadIdx.x) == 5) {
          ((float*)v_6)[5] = buffer_14[0];
        }
        if (((int)threadIdx.x) == 6) {
          ((float*)v_6)[6] = buffer_17[0];
        }
        if (((int)threadIdx.x) == 7) {
          ((float*)v_6)[7] = buffer_10[0];
        }
        if (((int)threadIdx.x) == 8) {
          ((float*)v_6)[8] = buffer_11[0];
        }
        if (((int)threadIdx.x) == 9) {
          ((float*)v_6)[9] = buffer_12[0];
        }
        if (((int)threadIdx.x) == 10) {
          ((float*)v_6)[10] = buffer_18[0];
        }
        if (((int)threadIdx.x) == 0) {
          ((float*)v_6)[11] = expf(buffer_9[0]);
        }
      }
    }
    if ((32 <= ((int)threadIdx.x)) && (((int)threadIdx.x) < 64)) {
      #pragma unroll
      for (int c_10 = 0; c_10 < 8; ++c_10) {
        scales[c_10] = ((kv_only == 0) ? scales[c_10] : 0x0p+0f/*0.000000e+00*/);
      }
      if ((0 < count) && (((kv_only != 0) ? 0 : 16) <= count)) {
        if ((((int)threadIdx.x) >> 4) == 2) {
          #pragma unroll
          for (int c_11 = 0; c_11 < 8; ++c_11) {
            ((float*)v_2)[(((((int)threadIdx.x) & 15) * 8) + c_11)] = scales[c_11];
          }
        }
      } else {
        #pragma unroll
        for (int c_12 = 0; c_12 < 8; ++c_12) {
          x[c_12] = ((float)buffer_3[c_12]);
        }
        most[0] = 0;
        #pragma unroll
        for (int c_13 = 0; c_13 < 8; ++c_13) {
          x_1[c_13] = (x[c_13] * scales[c_13]);
          float v_ = x_1[c_13];
          most[0] = max(most[0], ((*(int *)(&(v_))) & 2147483647));
        }
        most[0] = max(most[0], __shfl_xor_sync((uint)4294967295, most[0], 1, 32));
        most[0] = max(most[0], __shfl_xor_sync((uint)4294967295, most[0], 2, 32));
        most[0] = max(most[0], __shfl_xor_sync((uint)4294967295, most[0], 4, 32));
        most[0] = max(most[0], __shfl_xor_sync((uint)4294967295, most[0], 8, 32));
        exponent[0] = max((most[0] >> 23), 30);
        if ((((int)threadIdx.x) % 16) == 0) {
          int v__1 = most[0];
          int v__2 = (exponent[0] - 29) << 23;
          ((float*)v_7)[0] = ((exponent[0] == 255) ? (*(float *)(&(v__1))) : (*(float *)(&(v__2))));
        }
        int v__3 = (283 - exponent[0]) << 23;
        int whole = __float2int_rn((x_1[0] * (*(float *)(&(v__3)))));
        words[0] = ((((uint)whole) + (uint)8421504) ^ (uint)8421504);
        int v__4 = (283 - exponent[0]) << 23;
        int whole_1 = __float2int_rn((x_1[1] * (*(float *)(&(v__4)))));
        words[1] = ((((uint)whole_1) + (uint)8421504) ^ (uint)8421504);
        int v__5 = (283 - exponent[0]) << 23;
        int whole_2 = __float2int_rn((x_1[2] * (*(float *)(&(v__5)))));
        words[2] = ((((uint)whole_2) + (uint)8421504) ^ (uint)8421504);
        int v__6 = (283 - exponent[0]) << 23;
        int whole_3 = __float2int_rn((x_1[3] * (*(float *)(&(v__6)))));
        words[3] = ((((uint)whole_3) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2))] = __byte_perm(__byte_perm(words[0], words[1], (uint)115), __byte_perm(words[2], words[3], (uint)115), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 16)] = __byte_perm(__byte_perm(words[0], words[1], (uint)98), __byte_perm(words[2], words[3], (uint)98), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 32)] = __byte_perm(__byte_perm(words[0], words[1], (uint)81), __byte_perm(words[2], words[3], (uint)81), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 48)] = __byte_perm(__byte_perm(words[0], words[1], (uint)64), __byte_perm(words[2], words[3], (uint)64), (uint)21520);
        int v__7 = (283 - exponent[0]) << 23;
        int whole_4 = __float2int_rn((x_1[4] * (*(float *)(&(v__7)))));
        words[0] = ((((uint)whole_4) + (uint)8421504) ^ (uint)8421504);
        int v__8 = (283 - exponent[0]) << 23;
        int whole_5 = __float2int_rn((x_1[5] * (*(float *)(&(v__8)))));
        words[1] = ((((uint)whole_5) + (uint)8421504) ^ (uint)8421504);
        int v__9 = (283 - exponent[0]) << 23;
        int whole_6 = __float2int_rn((x_1[6] * (*(float *)(&(v__9)))));
        words[2] = ((((uint)whole_6) + (uint)8421504) ^ (uint)8421504);
        int v__10 = (283 - exponent[0]) << 23;
        int whole_7 = __float2int_rn((x_1[7] * (*(float *)(&(v__10)))));
        words[3] = ((((uint)whole_7) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 1)] = __byte_perm(__byte_perm(words[0], words[1], (uint)115), __byte_perm(words[2], words[3], (uint)115), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 17)] = __byte_perm(__byte_perm(words[0], words[1], (uint)98), __byte_perm(words[2], words[3], (uint)98), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 33)] = __byte_perm(__byte_perm(words[0], words[1], (uint)81), __byte_perm(words[2], words[3], (uint)81), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 49)] = __byte_perm(__byte_perm(words[0], words[1], (uint)64), __byte_perm(words[2], words[3], (uint)64), (uint)21520);
        #pragma unroll
        for (int c_14 = 0; c_14 < 8; ++c_14) {
          x[c_14] = ((float)buffer_4[c_14]);
        }
        most_1[0] = 0;
        #pragma unroll
        for (int c_15 = 0; c_15 < 8; ++c_15) {
          x_2[c_15] = (x[c_15] * scales[c_15]);
          float v__11 = x_2[c_15];
          most_1[0] = max(most_1[0], ((*(int *)(&(v__11))) & 2147483647));
        }
        most_1[0] = max(most_1[0], __shfl_xor_sync((uint)4294967295, most_1[0], 1, 32));
        most_1[0] = max(most_1[0], __shfl_xor_sync((uint)4294967295, most_1[0], 2, 32));
        most_1[0] = max(most_1[0], __shfl_xor_sync((uint)4294967295, most_1[0], 4, 32));
        most_1[0] = max(most_1[0], __shfl_xor_sync((uint)4294967295, most_1[0], 8, 32));
        exponent_1[0] = max((most_1[0] >> 23), 30);
        if ((((int)threadIdx.x) % 16) == 0) {
          int v__12 = most_1[0];
          int v__13 = (exponent_1[0] - 29) << 23;
          ((float*)v_7)[1] = ((exponent_1[0] == 255) ? (*(float *)(&(v__12))) : (*(float *)(&(v__13))));
        }
        int v__14 = (283 - exponent_1[0]) << 23;
        int whole_8 = __float2int_rn((x_2[0] * (*(float *)(&(v__14)))));
        words_1[0] = ((((uint)whole_8) + (uint)8421504) ^ (uint)8421504);
        int v__15 = (283 - exponent_1[0]) << 23;
        int whole_9 = __float2int_rn((x_2[1] * (*(float *)(&(v__15)))));
        words_1[1] = ((((uint)whole_9) + (uint)8421504) ^ (uint)8421504);
        int v__16 = (283 - exponent_1[0]) << 23;
        int whole_10 = __float2int_rn((x_2[2] * (*(float *)(&(v__16)))));
        words_1[2] = ((((uint)whole_10) + (uint)8421504) ^ (uint)8421504);
        int v__17 = (283 - exponent_1[0]) << 23;
        int whole_11 = __float2int_rn((x_2[3] * (*(float *)(&(v__17)))));
        words_1[3] = ((((uint)whole_11) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 64)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)115), __byte_perm(words_1[2], words_1[3], (uint)115), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 80)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)98), __byte_perm(words_1[2], words_1[3], (uint)98), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 96)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)81), __byte_perm(words_1[2], words_1[3], (uint)81), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 112)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)64), __byte_perm(words_1[2], words_1[3], (uint)64), (uint)21520);
        int v__18 = (283 - exponent_1[0]) << 23;
        int whole_12 = __float2int_rn((x_2[4] * (*(float *)(&(v__18)))));
        words_1[0] = ((((uint)whole_12) + (uint)8421504) ^ (uint)8421504);
        int v__19 = (283 - exponent_1[0]) << 23;
        int whole_13 = __float2int_rn((x_2[5] * (*(float *)(&(v__19)))));
        words_1[1] = ((((uint)whole_13) + (uint)8421504) ^ (uint)8421504);
        int v__20 = (283 - exponent_1[0]) << 23;
        int whole_14 = __float2int_rn((x_2[6] * (*(float *)(&(v__20)))));
        words_1[2] = ((((uint)whole_14) + (uint)8421504) ^ (uint)8421504);
        int v__21 = (283 - exponent_1[0]) << 23;
        int whole_15 = __float2int_rn((x_2[7] * (*(float *)(&(v__21)))));
        words_1[3] = ((((uint)whole_15) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 65)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)115), __byte_perm(words_1[2], words_1[3], (uint)115), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 81)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)98), __byte_perm(words_1[2], words_1[3], (uint)98), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 97)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)81), __byte_perm(words_1[2], words_1[3], (uint)81), (uint)21520);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) & 7) * 2)) + 113)] = __byte_perm(__byte_perm(words_1[0], words_1[1], (uint)64), __byte_perm(words_1[2], words_1[3], (uint)64), (uint)21520);
      }
    }
    if ((((int)threadIdx.x) >> 5) == 3) {
      v_12[0] = 0x0p+0f/*0.000000e+00*/;
      v_8[0] = (((((int)threadIdx.x) & 15) < count) ? v_8[0] : 0x0p+0f/*0.000000e+00*/);
      v_9[0] = (((((int)threadIdx.x) & 15) < count) ? v_9[0] : 0x0p+0f/*0.000000e+00*/);
      other[0] = __shfl_down_sync((uint)4294967295, v_8[0], 1, 16);
      v_8[0] = (v_8[0] + (((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_8[0], 2, 16);
      v_8[0] = (v_8[0] + (((((int)threadIdx.x) & 15) < 14) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_8[0], 4, 16);
      v_8[0] = (v_8[0] + (((((int)threadIdx.x) & 15) < 12) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_8[0], 8, 16);
      v_8[0] = (v_8[0] + (((((int)threadIdx.x) & 15) < 8) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_8[0], 1, 16);
      other[0] = ((((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/) + v_12[0]);
      v_12[0] = (v_12[0] + __shfl_sync((uint)4294967295, v_8[0], 0, 16));
      v_8[0] = other[0];
      v_8[0] = expf(v_8[0]);
      v_9[0] = (v_9[0] * v_8[0]);
      ((float*)weights)[(((int)threadIdx.x) & 15)] = v_9[0];
      ((float*)weights)[16] = expf(v_12[0]);
    }
    tl::cp_async_wait<1>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      buffer_19[i] = 0x0p+0f/*0.000000e+00*/;
    }
    decay[0] = ((float*)weights)[16];
    if ((0 < count) && (((kv_only != 0) ? 0 : 16) <= count)) {
      tl::cp_async_wait<0>();
      if (kv_only != 0) {
        #pragma unroll
        for (int e = 0; e < 16; ++e) {
          zeros[e] = (signed char)0;
        }
        *(int4*)(((signed char*)state_1) + ((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16))) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 576)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1152)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1728)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2304)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2880)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 3456)) = *(int4*)(zeros + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 4032)) = *(int4*)(zeros + 0);
      }
      __syncwarp();
      float decay_1 = decay[0];
      rows[0] = (((kv_only == 0) ? ((float*)v_5)[(((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2))] : 0x0p+0f/*0.000000e+00*/) * decay_1);
      rows[1] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 1)] : 0x0p+0f/*0.000000e+00*/) * decay_1);
      rows[2] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 16)] : 0x0p+0f/*0.000000e+00*/) * decay_1);
      rows[3] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 17)] : 0x0p+0f/*0.000000e+00*/) * decay_1);
      head[0] = __shfl_sync((uint)4294967295, (((int)blockIdx.x) % HV), 0, 32);
      v_10[0] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[0] : 0x0p+0f/*0.000000e+00*/);
      v_10[1] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[1] : 0x0p+0f/*0.000000e+00*/);
      v_10[8] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[8] : 0x0p+0f/*0.000000e+00*/);
      v_10[9] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[9] : 0x0p+0f/*0.000000e+00*/);
      v_10[2] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[2] : 0x0p+0f/*0.000000e+00*/);
      v_10[3] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[3] : 0x0p+0f/*0.000000e+00*/);
      v_10[10] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[10] : 0x0p+0f/*0.000000e+00*/);
      v_10[11] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[11] : 0x0p+0f/*0.000000e+00*/);
      v_10[4] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[4] : 0x0p+0f/*0.000000e+00*/);
      v_10[5] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[5] : 0x0p+0f/*0.000000e+00*/);
      v_10[12] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[12] : 0x0p+0f/*0.000000e+00*/);
      v_10[13] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[13] : 0x0p+0f/*0.000000e+00*/);
      v_10[6] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[6] : 0x0p+0f/*0.000000e+00*/);
      v_10[7] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[7] : 0x0p+0f/*0.000000e+00*/);
      v_10[14] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[14] : 0x0p+0f/*0.000000e+00*/);
      v_10[15] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[15] : 0x0p+0f/*0.000000e+00*/);
      values_3[0] = (v_10[0] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_3[1] = (v_10[2] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__22 = values_3[0];
      float v__23 = values_3[1];
      part[0] = __byte_perm((*(uint *)(&(v__22))), (*(uint *)(&(v__23))), (uint)30258);
      float v__24 = values_3[0];
      uint v__25 = (*(uint *)(&(v__24))) & (uint)4294901760;
      values_3[2] = (values_3[0] - (*(float *)(&(v__25))));
      float v__26 = values_3[1];
      uint v__27 = (*(uint *)(&(v__26))) & (uint)4294901760;
      values_3[3] = (values_3[1] - (*(float *)(&(v__27))));
      float v__28 = values_3[2];
      float v__29 = values_3[3];
      part_1[0] = __byte_perm((*(uint *)(&(v__28))), (*(uint *)(&(v__29))), (uint)30258);
      float v__30 = values_3[2];
      uint v__31 = (*(uint *)(&(v__30))) & (uint)4294901760;
      values_3[4] = (values_3[2] - (*(float *)(&(v__31))));
      float v__32 = values_3[3];
      uint v__33 = (*(uint *)(&(v__32))) & (uint)4294901760;
      values_3[5] = (values_3[3] - (*(float *)(&(v__33))));
      float v__34 = values_3[4];
      float v__35 = values_3[5];
      part_2[0] = __byte_perm((*(uint *)(&(v__34))), (*(uint *)(&(v__35))), (uint)30258);
      values_4[0] = (v_10[1] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_4[1] = (v_10[3] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__36 = values_4[0];
      float v__37 = values_4[1];
      part[1] = __byte_perm((*(uint *)(&(v__36))), (*(uint *)(&(v__37))), (uint)30258);
      float v__38 = values_4[0];
      uint v__39 = (*(uint *)(&(v__38))) & (uint)4294901760;
      values_4[2] = (values_4[0] - (*(float *)(&(v__39))));
      float v__40 = values_4[1];
      uint v__41 = (*(uint *)(&(v__40))) & (uint)4294901760;
      values_4[3] = (values_4[1] - (*(float *)(&(v__41))));
      float v__42 = values_4[2];
      float v__43 = values_4[3];
      part_1[1] = __byte_perm((*(uint *)(&(v__42))), (*(uint *)(&(v__43))), (uint)30258);
      float v__44 = values_4[2];
      uint v__45 = (*(uint *)(&(v__44))) & (uint)4294901760;
      values_4[4] = (values_4[2] - (*(float *)(&(v__45))));
      float v__46 = values_4[3];
      uint v__47 = (*(uint *)(&(v__46))) & (uint)4294901760;
      values_4[5] = (values_4[3] - (*(float *)(&(v__47))));
      float v__48 = values_4[4];
      float v__49 = values_4[5];
      part_2[1] = __byte_perm((*(uint *)(&(v__48))), (*(uint *)(&(v__49))), (uint)30258);
      values_5[0] = (v_10[8] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_5[1] = (v_10[10] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__50 = values_5[0];
      float v__51 = values_5[1];
      part[4] = __byte_perm((*(uint *)(&(v__50))), (*(uint *)(&(v__51))), (uint)30258);
      float v__52 = values_5[0];
      uint v__53 = (*(uint *)(&(v__52))) & (uint)4294901760;
      values_5[2] = (values_5[0] - (*(float *)(&(v__53))));
      float v__54 = values_5[1];
      uint v__55 = (*(uint *)(&(v__54))) & (uint)4294901760;
      values_5[3] = (values_5[1] - (*(float *)(&(v__55))));
      float v__56 = values_5[2];
      float v__57 = values_5[3];
      part_1[4] = __byte_perm((*(uint *)(&(v__56))), (*(uint *)(&(v__57))), (uint)30258);
      float v__58 = values_5[2];
      uint v__59 = (*(uint *)(&(v__58))) & (uint)4294901760;
      values_5[4] = (values_5[2] - (*(float *)(&(v__59))));
      float v__60 = values_5[3];
      uint v__61 = (*(uint *)(&(v__60))) & (uint)4294901760;
      values_5[5] = (values_5[3] - (*(float *)(&(v__61))));
      float v__62 = values_5[4];
      float v__63 = values_5[5];
      part_2[4] = __byte_perm((*(uint *)(&(v__62))), (*(uint *)(&(v__63))), (uint)30258);
      values_6[0] = (v_10[9] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_6[1] = (v_10[11] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__64 = values_6[0];
      float v__65 = values_6[1];
      part[5] = __byte_perm((*(uint *)(&(v__64))), (*(uint *)(&(v__65))), (uint)30258);
      float v__66 = values_6[0];
      uint v__67 = (*(uint *)(&(v__66))) & (uint)4294901760;
      values_6[2] = (values_6[0] - (*(float *)(&(v__67))));
      float v__68 = values_6[1];
      uint v__69 = (*(uint *)(&(v__68))) & (uint)4294901760;
      values_6[3] = (values_6[1] - (*(float *)(&(v__69))));
      float v__70 = values_6[2];
      float v__71 = values_6[3];
      part_1[5] = __byte_perm((*(uint *)(&(v__70))), (*(uint *)(&(v__71))), (uint)30258);
      float v__72 = values_6[2];
      uint v__73 = (*(uint *)(&(v__72))) & (uint)4294901760;
      values_6[4] = (values_6[2] - (*(float *)(&(v__73))));
      float v__74 = values_6[3];
      uint v__75 = (*(uint *)(&(v__74))) & (uint)4294901760;
      values_6[5] = (values_6[3] - (*(float *)(&(v__75))));
      float v__76 = values_6[4];
      float v__77 = values_6[5];
      part_2[5] = __byte_perm((*(uint *)(&(v__76))), (*(uint *)(&(v__77))), (uint)30258);
      values_7[0] = (v_10[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_7[1] = (v_10[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__78 = values_7[0];
      float v__79 = values_7[1];
      part[2] = __byte_perm((*(uint *)(&(v__78))), (*(uint *)(&(v__79))), (uint)30258);
      float v__80 = values_7[0];
      uint v__81 = (*(uint *)(&(v__80))) & (uint)4294901760;
      values_7[2] = (values_7[0] - (*(float *)(&(v__81))));
      float v__82 = values_7[1];
      uint v__83 = (*(uint *)(&(v__82))) & (uint)4294901760;
      values_7[3] = (values_7[1] - (*(float *)(&(v__83))));
      float v__84 = values_7[2];
      float v__85 = values_7[3];
      part_1[2] = __byte_perm((*(uint *)(&(v__84))), (*(uint *)(&(v__85))), (uint)30258);
      float v__86 = values_7[2];
      uint v__87 = (*(uint *)(&(v__86))) & (uint)4294901760;
      values_7[4] = (values_7[2] - (*(float *)(&(v__87))));
      float v__88 = values_7[3];
      uint v__89 = (*(uint *)(&(v__88))) & (uint)4294901760;
      values_7[5] = (values_7[3] - (*(float *)(&(v__89))));
      float v__90 = values_7[4];
      float v__91 = values_7[5];
      part_2[2] = __byte_perm((*(uint *)(&(v__90))), (*(uint *)(&(v__91))), (uint)30258);
      values_8[0] = (v_10[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_8[1] = (v_10[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__92 = values_8[0];
      float v__93 = values_8[1];
      part[3] = __byte_perm((*(uint *)(&(v__92))), (*(uint *)(&(v__93))), (uint)30258);
      float v__94 = values_8[0];
      uint v__95 = (*(uint *)(&(v__94))) & (uint)4294901760;
      values_8[2] = (values_8[0] - (*(float *)(&(v__95))));
      float v__96 = values_8[1];
      uint v__97 = (*(uint *)(&(v__96))) & (uint)4294901760;
      values_8[3] = (values_8[1] - (*(float *)(&(v__97))));
      float v__98 = values_8[2];
      float v__99 = values_8[3];
      part_1[3] = __byte_perm((*(uint *)(&(v__98))), (*(uint *)(&(v__99))), (uint)30258);
      float v__100 = values_8[2];
      uint v__101 = (*(uint *)(&(v__100))) & (uint)4294901760;
      values_8[4] = (values_8[2] - (*(float *)(&(v__101))));
      float v__102 = values_8[3];
      uint v__103 = (*(uint *)(&(v__102))) & (uint)4294901760;
      values_8[5] = (values_8[3] - (*(float *)(&(v__103))));
      float v__104 = values_8[4];
      float v__105 = values_8[5];
      part_2[3] = __byte_perm((*(uint *)(&(v__104))), (*(uint *)(&(v__105))), (uint)30258);
      values_9[0] = (v_10[12] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_9[1] = (v_10[14] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__106 = values_9[0];
      float v__107 = values_9[1];
      part[6] = __byte_perm((*(uint *)(&(v__106))), (*(uint *)(&(v__107))), (uint)30258);
      float v__108 = values_9[0];
      uint v__109 = (*(uint *)(&(v__108))) & (uint)4294901760;
      values_9[2] = (values_9[0] - (*(float *)(&(v__109))));
      float v__110 = values_9[1];
      uint v__111 = (*(uint *)(&(v__110))) & (uint)4294901760;
      values_9[3] = (values_9[1] - (*(float *)(&(v__111))));
      float v__112 = values_9[2];
      float v__113 = values_9[3];
      part_1[6] = __byte_perm((*(uint *)(&(v__112))), (*(uint *)(&(v__113))), (uint)30258);
      float v__114 = values_9[2];
      uint v__115 = (*(uint *)(&(v__114))) & (uint)4294901760;
      values_9[4] = (values_9[2] - (*(float *)(&(v__115))));
      float v__116 = values_9[3];
      uint v__117 = (*(uint *)(&(v__116))) & (uint)4294901760;
      values_9[5] = (values_9[3] - (*(float *)(&(v__117))));
      float v__118 = values_9[4];
      float v__119 = values_9[5];
      part_2[6] = __byte_perm((*(uint *)(&(v__118))), (*(uint *)(&(v__119))), (uint)30258);
      values_10[0] = (v_10[13] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_10[1] = (v_10[15] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__120 = values_10[0];
      float v__121 = values_10[1];
      part[7] = __byte_perm((*(uint *)(&(v__120))), (*(uint *)(&(v__121))), (uint)30258);
      float v__122 = values_10[0];
      uint v__123 = (*(uint *)(&(v__122))) & (uint)4294901760;
      values_10[2] = (values_10[0] - (*(float *)(&(v__123))));
      float v__124 = values_10[1];
      uint v__125 = (*(uint *)(&(v__124))) & (uint)4294901760;
      values_10[3] = (values_10[1] - (*(float *)(&(v__125))));
      float v__126 = values_10[2];
      float v__127 = values_10[3];
      part_1[7] = __byte_perm((*(uint *)(&(v__126))), (*(uint *)(&(v__127))), (uint)30258);
      float v__128 = values_10[2];
      uint v__129 = (*(uint *)(&(v__128))) & (uint)4294901760;
      values_10[4] = (values_10[2] - (*(float *)(&(v__129))));
      float v__130 = values_10[3];
      uint v__131 = (*(uint *)(&(v__130))) & (uint)4294901760;
      values_10[5] = (values_10[3] - (*(float *)(&(v__131))));
      float v__132 = values_10[4];
      float v__133 = values_10[5];
      part_2[7] = __byte_perm((*(uint *)(&(v__132))), (*(uint *)(&(v__133))), (uint)30258);
      old[0] = rows[0];
      rows[0] = 0x0p+0f/*0.000000e+00*/;
      old[1] = rows[1];
      rows[1] = 0x0p+0f/*0.000000e+00*/;
      old[2] = rows[2];
      rows[2] = 0x0p+0f/*0.000000e+00*/;
      old[3] = rows[3];
      rows[3] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll 2
      for (int c_16 = 0; c_16 < 8; ++c_16) {
        *(char2*)(codes_1 + 0) = *(char2*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)));
        *(char2*)(codes_1 + 2) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        *(char2*)(codes_1 + 4) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 144));
        *(char2*)(codes_1 + 6) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 152));
        *(char2*)(codes_1 + 8) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2304));
        *(char2*)(codes_1 + 10) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2312));
        *(char2*)(codes_1 + 12) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2448));
        *(char2*)(codes_1 + 14) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_16 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2456));
        *(float2*)(scales_1 + 0) = *(float2*)(((float*)v_2) + ((c_16 * 16) + ((((int)threadIdx.x) & 3) * 2)));
        *(float2*)(scales_1 + 2) = *(float2*)(((float*)v_2) + (((c_16 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        #pragma unroll
        for (int i_1 = 0; i_1 < 16; ++i_1) {
          buffer_22[i_1] = 0x0p+0f/*0.000000e+00*/;
        }
        tl::ptx_ldmatrix_x4_trans((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 15) * 136) + (c_16 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_23[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 0), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 0), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 0), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 8), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 8), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 8), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_23 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 4), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_23 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 4), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_23 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 4), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_23 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 12), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_23 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 12), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_23 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_22 + 12), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_23 + 2));
        values_11[0] = (((((float)codes_1[0]) * scales_1[0]) * old[0]) + buffer_22[0]);
        values_11[1] = (((((float)codes_1[1]) * scales_1[1]) * old[0]) + buffer_22[1]);
        values_11[2] = (((((float)codes_1[2]) * scales_1[2]) * old[0]) + buffer_22[4]);
        values_11[3] = (((((float)codes_1[3]) * scales_1[3]) * old[0]) + buffer_22[5]);
        values_11[4] = (((((float)codes_1[4]) * scales_1[0]) * old[1]) + buffer_22[2]);
        values_11[5] = (((((float)codes_1[5]) * scales_1[1]) * old[1]) + buffer_22[3]);
        values_11[6] = (((((float)codes_1[6]) * scales_1[2]) * old[1]) + buffer_22[6]);
        values_11[7] = (((((float)codes_1[7]) * scales_1[3]) * old[1]) + buffer_22[7]);
        values_11[8] = (((((float)codes_1[8]) * scales_1[0]) * old[2]) + buffer_22[8]);
        values_11[9] = (((((float)codes_1[9]) * scales_1[1]) * old[2]) + buffer_22[9]);
        values_11[10] = (((((float)codes_1[10]) * scales_1[2]) * old[2]) + buffer_22[12]);
        values_11[11] = (((((float)codes_1[11]) * scales_1[3]) * old[2]) + buffer_22[13]);
        values_11[12] = (((((float)codes_1[12]) * scales_1[0]) * old[3]) + buffer_22[10]);
        values_11[13] = (((((float)codes_1[13]) * scales_1[1]) * old[3]) + buffer_22[11]);
        values_11[14] = (((((float)codes_1[14]) * scales_1[2]) * old[3]) + buffer_22[14]);
        values_11[15] = (((((float)codes_1[15]) * scales_1[3]) * old[3]) + buffer_22[15]);
        most_4[0] = fabsf(values_11[0]);
        most_4[0] = max(most_4[0], fabsf(values_11[4]));
        most_4[0] = max(most_4[0], fabsf(values_11[8]));
        most_4[0] = max(most_4[0], fabsf(values_11[12]));
        most_4[1] = fabsf(values_11[1]);
        most_4[1] = max(most_4[1], fabsf(values_11[5]));
        most_4[1] = max(most_4[1], fabsf(values_11[9]));
        most_4[1] = max(most_4[1], fabsf(values_11[13]));
        most_4[2] = fabsf(values_11[2]);
        most_4[2] = max(most_4[2], fabsf(values_11[6]));
        most_4[2] = max(most_4[2], fabsf(values_11[10]));
        most_4[2] = max(most_4[2], fabsf(values_11[14]));
        most_4[3] = fabsf(values_11[3]);
        most_4[3] = max(most_4[3], fabsf(values_11[7]));
        most_4[3] = max(most_4[3], fabsf(values_11[11]));
        most_4[3] = max(most_4[3], fabsf(values_11[15]));
        sent[0] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 4)) ? most_4[0] : most_4[2]);
        most_4[0] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 4)) ? most_4[2] : most_4[0]);
        most_4[0] = max(most_4[0], __shfl_xor_sync((uint)4294967295, sent[0], 16, 32));
        sent[1] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 4)) ? most_4[1] : most_4[3]);
        most_4[1] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 4)) ? most_4[3] : most_4[1]);
        most_4[1] = max(most_4[1], __shfl_xor_sync((uint)4294967295, sent[1], 16, 32));
        sent[0] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 2)) ? most_4[0] : most_4[1]);
        most_4[0] = ((0 < (((((int)threadIdx.x) & 31) >> 2) & 2)) ? most_4[1] : most_4[0]);
        most_4[0] = max(most_4[0], __shfl_xor_sync((uint)4294967295, sent[0], 8, 32));
        most_4[0] = max(most_4[0], __shfl_xor_sync((uint)4294967295, most_4[0], 4, 32));
        if (((((int)threadIdx.x) & 7) >> 2) == 0) {
          ((float*)v_1)[((((((((int)threadIdx.x) >> 5) * 128) + (c_16 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + ((((int)threadIdx.x) & 15) >> 3))] = most_4[0];
        }
      }
      __syncthreads();
      most_2[0] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        most_2[0] = max(most_2[0], ((float*)v_1)[((w * 128) + ((int)threadIdx.x))]);
      }
      uint v__134 = (uint)4278190080;
      uint v__135 = (uint)2130706432;
      uint v__136 = (uint)4278190080;
      uint v__137 = (uint)2130706432;
      most_2[0] = ((0x1.4484cp-100f/*1.000000e-30*/ < min(max(most_2[0], (*(float *)(&(v__134)))), (*(float *)(&(v__135))))) ? min(max(most_2[0], (*(float *)(&(v__136)))), (*(float *)(&(v__137)))) : 0x0p+0f/*0.000000e+00*/);
      ((float*)v_2)[(((int)threadIdx.x) + 128)] = most_2[0];
      ((float*)v_2)[(((int)threadIdx.x) + 256)] = ((0x0p+0f/*0.000000e+00*/ < most_2[0]) ? (0x1p+0f/*1.000000e+00*/ / most_2[0]) : 0x0p+0f/*0.000000e+00*/);
      state_channels[(int64_t(((head[0] * ((int)state_channels_s1)) + ((int)threadIdx.x))) + (((int64_t)slot) * state_channels_s0))] = most_2[0];
      __syncthreads();
      #pragma unroll 2
      for (int c_17 = 0; c_17 < 8; ++c_17) {
        *(char2*)(codes_2 + 0) = *(char2*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)));
        *(char2*)(codes_2 + 2) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        *(char2*)(codes_2 + 4) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 144));
        *(char2*)(codes_2 + 6) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 152));
        *(char2*)(codes_2 + 8) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2304));
        *(char2*)(codes_2 + 10) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2312));
        *(char2*)(codes_2 + 12) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2448));
        *(char2*)(codes_2 + 14) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_17 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2456));
        *(float2*)(scales_2 + 0) = *(float2*)(((float*)v_2) + ((c_17 * 16) + ((((int)threadIdx.x) & 3) * 2)));
        *(float2*)(scales_2 + 2) = *(float2*)(((float*)v_2) + (((c_17 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        #pragma unroll
        for (int i_2 = 0; i_2 < 16; ++i_2) {
          buffer_23[i_2] = 0x0p+0f/*0.000000e+00*/;
        }
        tl::ptx_ldmatrix_x4_trans((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 15) * 136) + (c_17 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_24[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 0), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 0), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 0), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 8), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 8), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 8), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 4), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 4), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 4), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 12), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 12), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 12), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        values_11[0] = (((((float)codes_2[0]) * scales_2[0]) * old[0]) + buffer_23[0]);
        values_11[1] = (((((float)codes_2[1]) * scales_2[1]) * old[0]) + buffer_23[1]);
        values_11[2] = (((((float)codes_2[2]) * scales_2[2]) * old[0]) + buffer_23[4]);
        values_11[3] = (((((float)codes_2[3]) * scales_2[3]) * old[0]) + buffer_23[5]);
        values_11[4] = (((((float)codes_2[4]) * scales_2[0]) * old[1]) + buffer_23[2]);
        values_11[5] = (((((float)codes_2[5]) * scales_2[1]) * old[1]) + buffer_23[3]);
        values_11[6] = (((((float)codes_2[6]) * scales_2[2]) * old[1]) + buffer_23[6]);
        values_11[7] = (((((float)codes_2[7]) * scales_2[3]) * old[1]) + buffer_23[7]);
        values_11[8] = (((((float)codes_2[8]) * scales_2[0]) * old[2]) + buffer_23[8]);
        values_11[9] = (((((float)codes_2[9]) * scales_2[1]) * old[2]) + buffer_23[9]);
        values_11[10] = (((((float)codes_2[10]) * scales_2[2]) * old[2]) + buffer_23[12]);
        values_11[11] = (((((float)codes_2[11]) * scales_2[3]) * old[2]) + buffer_23[13]);
        values_11[12] = (((((float)codes_2[12]) * scales_2[0]) * old[3]) + buffer_23[10]);
        values_11[13] = (((((float)codes_2[13]) * scales_2[1]) * old[3]) + buffer_23[11]);
        values_11[14] = (((((float)codes_2[14]) * scales_2[2]) * old[3]) + buffer_23[14]);
        values_11[15] = (((((float)codes_2[15]) * scales_2[3]) * old[3]) + buffer_23[15]);
        *(float2*)(scales_3 + 0) = *(float2*)(((float*)v_2) + (((c_17 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 256));
        *(float2*)(scales_3 + 2) = *(float2*)(((float*)v_2) + (((c_17 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 264));
        values_11[0] = (values_11[0] * scales_3[0]);
        values_11[1] = (values_11[1] * scales_3[1]);
        values_11[2] = (values_11[2] * scales_3[2]);
        values_11[3] = (values_11[3] * scales_3[3]);
        values_11[4] = (values_11[4] * scales_3[0]);
        values_11[5] = (values_11[5] * scales_3[1]);
        values_11[6] = (values_11[6] * scales_3[2]);
        values_11[7] = (values_11[7] * scales_3[3]);
        values_11[8] = (values_11[8] * scales_3[0]);
        values_11[9] = (values_11[9] * scales_3[1]);
        values_11[10] = (values_11[10] * scales_3[2]);
        values_11[11] = (values_11[11] * scales_3[3]);
        values_11[12] = (values_11[12] * scales_3[0]);
        values_11[13] = (values_11[13] * scales_3[1]);
        values_11[14] = (values_11[14] * scales_3[2]);
        values_11[15] = (values_11[15] * scales_3[3]);
        rows[0] = max(rows[0], fabsf(values_11[0]));
        rows[0] = max(rows[0], fabsf(values_11[1]));
        rows[0] = max(rows[0], fabsf(values_11[2]));
        rows[0] = max(rows[0], fabsf(values_11[3]));
        rows[1] = max(rows[1], fabsf(values_11[4]));
        rows[1] = max(rows[1], fabsf(values_11[5]));
        rows[1] = max(rows[1], fabsf(values_11[6]));
        rows[1] = max(rows[1], fabsf(values_11[7]));
        rows[2] = max(rows[2], fabsf(values_11[8]));
        rows[2] = max(rows[2], fabsf(values_11[9]));
        rows[2] = max(rows[2], fabsf(values_11[10]));
        rows[2] = max(rows[2], fabsf(values_11[11]));
        rows[3] = max(rows[3], fabsf(values_11[12]));
        rows[3] = max(rows[3], fabsf(values_11[13]));
        rows[3] = max(rows[3], fabsf(values_11[14]));
        rows[3] = max(rows[3], fabsf(values_11[15]));
      }
      rows[0] = max(rows[0], __shfl_xor_sync((uint)4294967295, rows[0], 1, 32));
      rows[0] = max(rows[0], __shfl_xor_sync((uint)4294967295, rows[0], 2, 32));
      rows[0] = ((0x1.4484cp-100f/*1.000000e-30*/ < min(rows[0], 0x1p+0f/*1.000000e+00*/)) ? min(rows[0], 0x1p+0f/*1.000000e+00*/) : 0x0p+0f/*0.000000e+00*/);
      inverse[0] = ((0x0p+0f/*0.000000e+00*/ < rows[0]) ? (0x1p-1f/*5.000000e-01*/ / rows[0]) : 0x0p+0f/*0.000000e+00*/);
      rows[0] = (rows[0] * 0x1.020408p-7f/*7.874016e-03*/);
      rows[1] = max(rows[1], __shfl_xor_sync((uint)4294967295, rows[1], 1, 32));
      rows[1] = max(rows[1], __shfl_xor_sync((uint)4294967295, rows[1], 2, 32));
      rows[1] = ((0x1.4484cp-100f/*1.000000e-30*/ < min(rows[1], 0x1p+0f/*1.000000e+00*/)) ? min(rows[1], 0x1p+0f/*1.000000e+00*/) : 0x0p+0f/*0.000000e+00*/);
      inverse[1] = ((0x0p+0f/*0.000000e+00*/ < rows[1]) ? (0x1p-1f/*5.000000e-01*/ / rows[1]) : 0x0p+0f/*0.000000e+00*/);
      rows[1] = (rows[1] * 0x1.020408p-7f/*7.874016e-03*/);
      rows[2] = max(rows[2], __shfl_xor_sync((uint)4294967295, rows[2], 1, 32));
      rows[2] = max(rows[2], __shfl_xor_sync((uint)4294967295, rows[2], 2, 32));
      rows[2] = ((0x1.4484cp-100f/*1.000000e-30*/ < min(rows[2], 0x1p+0f/*1.000000e+00*/)) ? min(rows[2], 0x1p+0f/*1.000000e+00*/) : 0x0p+0f/*0.000000e+00*/);
      inverse[2] = ((0x0p+0f/*0.000000e+00*/ < rows[2]) ? (0x1p-1f/*5.000000e-01*/ / rows[2]) : 0x0p+0f/*0.000000e+00*/);
      rows[2] = (rows[2] * 0x1.020408p-7f/*7.874016e-03*/);
      rows[3] = max(rows[3], __shfl_xor_sync((uint)4294967295, rows[3], 1, 32));
      rows[3] = max(rows[3], __shfl_xor_sync((uint)4294967295, rows[3], 2, 32));
      rows[3] = ((0x1.4484cp-100f/*1.000000e-30*/ < min(rows[3], 0x1p+0f/*1.000000e+00*/)) ? min(rows[3], 0x1p+0f/*1.000000e+00*/) : 0x0p+0f/*0.000000e+00*/);
      inverse[3] = ((0x0p+0f/*0.000000e+00*/ < rows[3]) ? (0x1p-1f/*5.000000e-01*/ / rows[3]) : 0x0p+0f/*0.000000e+00*/);
      rows[3] = (rows[3] * 0x1.020408p-7f/*7.874016e-03*/);
      if ((((int)threadIdx.x) % 4) == 0) {
        *(float2*)(state_rows + (int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + (head[0] * ((int)state_rows_s1)))) + (((int64_t)slot) * state_rows_s0))) = *(float2*)(rows + 0);
        *(float2*)(state_rows + (int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + (head[0] * ((int)state_rows_s1))) + 16)) + (((int64_t)slot) * state_rows_s0))) = *(float2*)(rows + 2);
      }
      #pragma unroll 2
      for (int c_18 = 0; c_18 < 8; ++c_18) {
        *(char2*)(codes_3 + 0) = *(char2*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)));
        *(char2*)(codes_3 + 2) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        *(char2*)(codes_3 + 4) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 144));
        *(char2*)(codes_3 + 6) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 152));
        *(char2*)(codes_3 + 8) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2304));
        *(char2*)(codes_3 + 10) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2312));
        *(char2*)(codes_3 + 12) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2448));
        *(char2*)(codes_3 + 14) = *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2456));
        *(float2*)(scales_4 + 0) = *(float2*)(((float*)v_2) + ((c_18 * 16) + ((((int)threadIdx.x) & 3) * 2)));
        *(float2*)(scales_4 + 2) = *(float2*)(((float*)v_2) + (((c_18 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 8));
        #pragma unroll
        for (int i_3 = 0; i_3 < 16; ++i_3) {
          buffer_24[i_3] = 0x0p+0f/*0.000000e+00*/;
        }
        tl::ptx_ldmatrix_x4_trans((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 15) * 136) + (c_18 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_25[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 0), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 0), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 0), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 8), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 8), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 8), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_25 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 4), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_25 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 4), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_25 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 4), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_25 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 12), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_25 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 12), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_25 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_24 + 12), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_25 + 2));
        values_11[0] = (((((float)codes_3[0]) * scales_4[0]) * old[0]) + buffer_24[0]);
        values_11[1] = (((((float)codes_3[1]) * scales_4[1]) * old[0]) + buffer_24[1]);
        values_11[2] = (((((float)codes_3[2]) * scales_4[2]) * old[0]) + buffer_24[4]);
        values_11[3] = (((((float)codes_3[3]) * scales_4[3]) * old[0]) + buffer_24[5]);
        values_11[4] = (((((float)codes_3[4]) * scales_4[0]) * old[1]) + buffer_24[2]);
        values_11[5] = (((((float)codes_3[5]) * scales_4[1]) * old[1]) + buffer_24[3]);
        values_11[6] = (((((float)codes_3[6]) * scales_4[2]) * old[1]) + buffer_24[6]);
        values_11[7] = (((((float)codes_3[7]) * scales_4[3]) * old[1]) + buffer_24[7]);
        values_11[8] = (((((float)codes_3[8]) * scales_4[0]) * old[2]) + buffer_24[8]);
        values_11[9] = (((((float)codes_3[9]) * scales_4[1]) * old[2]) + buffer_24[9]);
        values_11[10] = (((((float)codes_3[10]) * scales_4[2]) * old[2]) + buffer_24[12]);
        values_11[11] = (((((float)codes_3[11]) * scales_4[3]) * old[2]) + buffer_24[13]);
        values_11[12] = (((((float)codes_3[12]) * scales_4[0]) * old[3]) + buffer_24[10]);
        values_11[13] = (((((float)codes_3[13]) * scales_4[1]) * old[3]) + buffer_24[11]);
        values_11[14] = (((((float)codes_3[14]) * scales_4[2]) * old[3]) + buffer_24[14]);
        values_11[15] = (((((float)codes_3[15]) * scales_4[3]) * old[3]) + buffer_24[15]);
        *(float2*)(scales_5 + 0) = *(float2*)(((float*)v_2) + (((c_18 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 256));
        *(float2*)(scales_5 + 2) = *(float2*)(((float*)v_2) + (((c_18 * 16) + ((((int)threadIdx.x) & 3) * 2)) + 264));
        values_11[0] = (values_11[0] * scales_5[0]);
        values_11[1] = (values_11[1] * scales_5[1]);
        values_11[2] = (values_11[2] * scales_5[2]);
        values_11[3] = (values_11[3] * scales_5[3]);
        values_11[4] = (values_11[4] * scales_5[0]);
        values_11[5] = (values_11[5] * scales_5[1]);
        values_11[6] = (values_11[6] * scales_5[2]);
        values_11[7] = (values_11[7] * scales_5[3]);
        values_11[8] = (values_11[8] * scales_5[0]);
        values_11[9] = (values_11[9] * scales_5[1]);
        values_11[10] = (values_11[10] * scales_5[2]);
        values_11[11] = (values_11[11] * scales_5[3]);
        values_11[12] = (values_11[12] * scales_5[0]);
        values_11[13] = (values_11[13] * scales_5[1]);
        values_11[14] = (values_11[14] * scales_5[2]);
        values_11[15] = (values_11[15] * scales_5[3]);
        float part_3 = ((values_11[0] * inverse[0]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_3) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__138 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__138))));
        float v__139 = code[0];
        coded[0] = ((signed char)(*(int *)(&(v__139))));
        float part_4 = ((values_11[1] * inverse[0]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_4) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__140 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__140))));
        float v__141 = code[0];
        coded[1] = ((signed char)(*(int *)(&(v__141))));
        float part_5 = ((values_11[2] * inverse[0]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_5) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__142 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__142))));
        float v__143 = code[0];
        coded[2] = ((signed char)(*(int *)(&(v__143))));
        float part_6 = ((values_11[3] * inverse[0]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_6) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__144 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__144))));
        float v__145 = code[0];
        coded[3] = ((signed char)(*(int *)(&(v__145))));
        *(char2*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2))) = *(char2*)(coded + 0);
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 8)) = *(char2*)(coded + 2);
        float part_7 = ((values_11[4] * inverse[1]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_7) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__146 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__146))));
        float v__147 = code[0];
        coded[0] = ((signed char)(*(int *)(&(v__147))));
        float part_8 = ((values_11[5] * inverse[1]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_8) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__148 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__148))));
        float v__149 = code[0];
        coded[1] = ((signed char)(*(int *)(&(v__149))));
        float part_9 = ((values_11[6] * inverse[1]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_9) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__150 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__150))));
        float v__151 = code[0];
        coded[2] = ((signed char)(*(int *)(&(v__151))));
        float part_10 = ((values_11[7] * inverse[1]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_10) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__152 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__152))));
        float v__153 = code[0];
        coded[3] = ((signed char)(*(int *)(&(v__153))));
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 144)) = *(char2*)(coded + 0);
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 152)) = *(char2*)(coded + 2);
        float part_11 = ((values_11[8] * inverse[2]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_11) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__154 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__154))));
        float v__155 = code[0];
        coded[0] = ((signed char)(*(int *)(&(v__155))));
        float part_12 = ((values_11[9] * inverse[2]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_12) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__156 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__156))));
        float v__157 = code[0];
        coded[1] = ((signed char)(*(int *)(&(v__157))));
        float part_13 = ((values_11[10] * inverse[2]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_13) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__158 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__158))));
        float v__159 = code[0];
        coded[2] = ((signed char)(*(int *)(&(v__159))));
        float part_14 = ((values_11[11] * inverse[2]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_14) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__160 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__160))));
        float v__161 = code[0];
        coded[3] = ((signed char)(*(int *)(&(v__161))));
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2304)) = *(char2*)(coded + 0);
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2312)) = *(char2*)(coded + 2);
        float part_15 = ((values_11[12] * inverse[3]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_15) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__162 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__162))));
        float v__163 = code[0];
        coded[0] = ((signed char)(*(int *)(&(v__163))));
        float part_16 = ((values_11[13] * inverse[3]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_16) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__164 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__164))));
        float v__165 = code[0];
        coded[1] = ((signed char)(*(int *)(&(v__165))));
        float part_17 = ((values_11[14] * inverse[3]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_17) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__166 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__166))));
        float v__167 = code[0];
        coded[2] = ((signed char)(*(int *)(&(v__167))));
        float part_18 = ((values_11[15] * inverse[3]) + 0x1p-1f/*5.000000e-01*/);
        code[0] = (__saturatef(part_18) * 0x1.fcp+7f/*2.540000e+02*/);
        uint v__168 = (uint)1262485377;
        code[0] = (code[0] + (*(float *)(&(v__168))));
        float v__169 = code[0];
        coded[3] = ((signed char)(*(int *)(&(v__169))));
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2448)) = *(char2*)(coded + 0);
        *(char2*)(((signed char*)state_1) + ((((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + (c_18 * 16)) + ((((int)threadIdx.x) & 3) * 2)) + 2456)) = *(char2*)(coded + 2);
      }
      __syncwarp();
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + ((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + ((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 4) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 576));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 8) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1152));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 12) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1728));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 16) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2304));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 20) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2880));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 24) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 3456));
      *(int4*)(state + (int64_t(((((((int)threadIdx.x) & 7) * 16) + (head[0] * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 3)) + 28) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 4032));
      if (((int)threadIdx.x) < 32) {
        #pragma unroll
        for (int c_19 = 0; c_19 < 8; ++c_19) {
          scales[c_19] = ((float*)v_2)[((((((int)threadIdx.x) & 15) * 8) + c_19) + 128)];
          x_3[c_19] = ((float)((bfloat16_t*)reads)[((((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8)) + c_19)]);
        }
        most_3[0] = 0;
        #pragma unroll
        for (int c_20 = 0; c_20 < 8; ++c_20) {
          x_4[c_20] = (x_3[c_20] * scales[c_20]);
          float v__170 = x_4[c_20];
          most_3[0] = max(most_3[0], ((*(int *)(&(v__170))) & 2147483647));
        }
        most_3[0] = max(most_3[0], __shfl_xor_sync((uint)4294967295, most_3[0], 1, 32));
        most_3[0] = max(most_3[0], __shfl_xor_sync((uint)4294967295, most_3[0], 2, 32));
        most_3[0] = max(most_3[0], __shfl_xor_sync((uint)4294967295, most_3[0], 4, 32));
        most_3[0] = max(most_3[0], __shfl_xor_sync((uint)4294967295, most_3[0], 8, 32));
        exponent_2[0] = max((most_3[0] >> 23), 30);
        if ((((int)threadIdx.x) % 16) == 0) {
          int v__171 = most_3[0];
          int v__172 = (exponent_2[0] - 29) << 23;
          ((float*)v_7)[(((int)threadIdx.x) >> 4)] = ((exponent_2[0] == 255) ? (*(float *)(&(v__171))) : (*(float *)(&(v__172))));
        }
        int v__173 = (283 - exponent_2[0]) << 23;
        int whole_16 = __float2int_rn((x_4[0] * (*(float *)(&(v__173)))));
        words_2[0] = ((((uint)whole_16) + (uint)8421504) ^ (uint)8421504);
        int v__174 = (283 - exponent_2[0]) << 23;
        int whole_17 = __float2int_rn((x_4[1] * (*(float *)(&(v__174)))));
        words_2[1] = ((((uint)whole_17) + (uint)8421504) ^ (uint)8421504);
        int v__175 = (283 - exponent_2[0]) << 23;
        int whole_18 = __float2int_rn((x_4[2] * (*(float *)(&(v__175)))));
        words_2[2] = ((((uint)whole_18) + (uint)8421504) ^ (uint)8421504);
        int v__176 = (283 - exponent_2[0]) << 23;
        int whole_19 = __float2int_rn((x_4[3] * (*(float *)(&(v__176)))));
        words_2[3] = ((((uint)whole_19) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[(((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2))] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)115), __byte_perm(words_2[2], words_2[3], (uint)115), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 16)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)98), __byte_perm(words_2[2], words_2[3], (uint)98), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 32)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)81), __byte_perm(words_2[2], words_2[3], (uint)81), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 48)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)64), __byte_perm(words_2[2], words_2[3], (uint)64), (uint)21520);
        int v__177 = (283 - exponent_2[0]) << 23;
        int whole_20 = __float2int_rn((x_4[4] * (*(float *)(&(v__177)))));
        words_2[0] = ((((uint)whole_20) + (uint)8421504) ^ (uint)8421504);
        int v__178 = (283 - exponent_2[0]) << 23;
        int whole_21 = __float2int_rn((x_4[5] * (*(float *)(&(v__178)))));
        words_2[1] = ((((uint)whole_21) + (uint)8421504) ^ (uint)8421504);
        int v__179 = (283 - exponent_2[0]) << 23;
        int whole_22 = __float2int_rn((x_4[6] * (*(float *)(&(v__179)))));
        words_2[2] = ((((uint)whole_22) + (uint)8421504) ^ (uint)8421504);
        int v__180 = (283 - exponent_2[0]) << 23;
        int whole_23 = __float2int_rn((x_4[7] * (*(float *)(&(v__180)))));
        words_2[3] = ((((uint)whole_23) + (uint)8421504) ^ (uint)8421504);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 1)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)115), __byte_perm(words_2[2], words_2[3], (uint)115), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 17)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)98), __byte_perm(words_2[2], words_2[3], (uint)98), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 33)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)81), __byte_perm(words_2[2], words_2[3], (uint)81), (uint)21520);
        ((uint*)v_4)[((((((((int)threadIdx.x) & 15) >> 3) * 128) + ((((int)threadIdx.x) >> 4) * 64)) + ((((int)threadIdx.x) & 7) * 2)) + 49)] = __byte_perm(__byte_perm(words_2[0], words_2[1], (uint)64), __byte_perm(words_2[2], words_2[3], (uint)64), (uint)21520);
      }
      __syncthreads();
    } else {
      if (0 < count) {
        v_10[0] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[0] : 0x0p+0f/*0.000000e+00*/);
        v_10[1] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[1] : 0x0p+0f/*0.000000e+00*/);
        v_10[8] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[8] : 0x0p+0f/*0.000000e+00*/);
        v_10[9] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_10[9] : 0x0p+0f/*0.000000e+00*/);
        v_10[2] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[2] : 0x0p+0f/*0.000000e+00*/);
        v_10[3] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[3] : 0x0p+0f/*0.000000e+00*/);
        v_10[10] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[10] : 0x0p+0f/*0.000000e+00*/);
        v_10[11] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_10[11] : 0x0p+0f/*0.000000e+00*/);
        v_10[4] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[4] : 0x0p+0f/*0.000000e+00*/);
        v_10[5] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[5] : 0x0p+0f/*0.000000e+00*/);
        v_10[12] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[12] : 0x0p+0f/*0.000000e+00*/);
        v_10[13] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_10[13] : 0x0p+0f/*0.000000e+00*/);
        v_10[6] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[6] : 0x0p+0f/*0.000000e+00*/);
        v_10[7] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[7] : 0x0p+0f/*0.000000e+00*/);
        v_10[14] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[14] : 0x0p+0f/*0.000000e+00*/);
        v_10[15] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_10[15] : 0x0p+0f/*0.000000e+00*/);
        #pragma unroll
        for (int i_4 = 0; i_4 < 8; ++i_4) {
          buffer_20[i_4] = 0x0p+0f/*0.000000e+00*/;
        }
        #pragma unroll
        for (int i_5 = 0; i_5 < 8; ++i_5) {
          buffer_25[i_5] = 0x0p+0f/*0.000000e+00*/;
        }
        #pragma unroll
        for (int c_21 = 0; c_21 < 4; ++c_21) {
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 7) * 136) + (c_21 * 32)) + (((((int)threadIdx.x) & 31) >> 3) * 8))])), (&(v_26[0])));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)keys)[(((((((int)threadIdx.x) & 7) * 136) + (c_21 * 32)) + (((((int)threadIdx.x) & 31) >> 3) * 8)) + 1088)])), (&(v_27[0])));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[(((min(((((int)threadIdx.x) & 15) >> 2), 1) * 136) + (c_21 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_28[0])));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_28 + 0), reinterpret_cast<const unsigned*>(v_26 + 0));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_28 + 0), reinterpret_cast<const unsigned*>(v_27 + 0));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[((((min(((((int)threadIdx.x) & 15) >> 2), 1) * 136) + (c_21 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 16)])), (&(v_29[0])));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_29 + 0), reinterpret_cast<const unsigned*>(v_26 + 2));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_29 + 0), reinterpret_cast<const unsigned*>(v_27 + 2));
        }
        float value = (buffer_20[0] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
        float _reinterpret_tmp = value;
        uint v__181 = (*(uint *)(&(_reinterpret_tmp))) & (uint)4294959104;
        v_13[0] = (*(float *)(&(v__181)));
        v_14[0] = (value - v_13[0]);
        float value_1 = (buffer_20[1] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
        float _reinterpret_tmp_1 = value_1;
        uint v__182 = (*(uint *)(&(_reinterpret_tmp_1))) & (uint)4294959104;
        v_13[1] = (*(float *)(&(v__182)));
        v_14[1] = (value_1 - v_13[1]);
        float value_2 = (buffer_20[2] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
        float _reinterpret_tmp_2 = value_2;
        uint v__183 = (*(uint *)(&(_reinterpret_tmp_2))) & (uint)4294959104;
        v_13[2] = (*(float *)(&(v__183)));
        v_14[2] = (value_2 - v_13[2]);
        float value_3 = (buffer_20[3] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
        float _reinterpret_tmp_3 = value_3;
        uint v__184 = (*(uint *)(&(_reinterpret_tmp_3))) & (uint)4294959104;
        v_13[3] = (*(float *)(&(v__184)));
        v_14[3] = (value_3 - v_13[3]);
        float value_4 = v_10[0];
        float _reinterpret_tmp_4 = value_4;
        uint v__185 = (*(uint *)(&(_reinterpret_tmp_4))) & (uint)4294959104;
        v_15[0] = (*(float *)(&(v__185)));
        v_16[0] = (value_4 - v_15[0]);
        float value_5 = v_10[2];
        float _reinterpret_tmp_5 = value_5;
        uint v__186 = (*(uint *)(&(_reinterpret_tmp_5))) & (uint)4294959104;
        v_15[2] = (*(float *)(&(v__186)));
        v_16[2] = (value_5 - v_15[2]);
        float value_6 = v_10[1];
        float _reinterpret_tmp_6 = value_6;
        uint v__187 = (*(uint *)(&(_reinterpret_tmp_6))) & (uint)4294959104;
        v_15[1] = (*(float *)(&(v__187)));
        v_16[1] = (value_6 - v_15[1]);
        float value_7 = v_10[3];
        float _reinterpret_tmp_7 = value_7;
        uint v__188 = (*(uint *)(&(_reinterpret_tmp_7))) & (uint)4294959104;
        v_15[3] = (*(float *)(&(v__188)));
        v_16[3] = (value_7 - v_15[3]);
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_15 + 0), reinterpret_cast<const unsigned*>(v_13 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_16 + 0), reinterpret_cast<const unsigned*>(v_13 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_15 + 0), reinterpret_cast<const unsigned*>(v_14 + 0));
        float value_8 = v_10[8];
        float _reinterpret_tmp_8 = value_8;
        uint v__189 = (*(uint *)(&(_reinterpret_tmp_8))) & (uint)4294959104;
        v_15[4] = (*(float *)(&(v__189)));
        v_16[4] = (value_8 - v_15[4]);
        float value_9 = v_10[10];
        float _reinterpret_tmp_9 = value_9;
        uint v__190 = (*(uint *)(&(_reinterpret_tmp_9))) & (uint)4294959104;
        v_15[6] = (*(float *)(&(v__190)));
        v_16[6] = (value_9 - v_15[6]);
        float value_10 = v_10[9];
        float _reinterpret_tmp_10 = value_10;
        uint v__191 = (*(uint *)(&(_reinterpret_tmp_10))) & (uint)4294959104;
        v_15[5] = (*(float *)(&(v__191)));
        v_16[5] = (value_10 - v_15[5]);
        float value_11 = v_10[11];
        float _reinterpret_tmp_11 = value_11;
        uint v__192 = (*(uint *)(&(_reinterpret_tmp_11))) & (uint)4294959104;
        v_15[7] = (*(float *)(&(v__192)));
        v_16[7] = (value_11 - v_15[7]);
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_15 + 4), reinterpret_cast<const unsigned*>(v_13 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_16 + 4), reinterpret_cast<const unsigned*>(v_13 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_15 + 4), reinterpret_cast<const unsigned*>(v_14 + 0));
        if (8 < count) {
          float v__193 = buffer_20[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)];
          uint v__194 = (*(uint *)(&(v__193))) & (uint)4294959104;
          v_17[0] = (*(float *)(&(v__194)));
          v_18[0] = ((buffer_20[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]) - v_17[0]);
          float v__195 = buffer_20[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)];
          uint v__196 = (*(uint *)(&(v__195))) & (uint)4294959104;
          v_17[1] = (*(float *)(&(v__196)));
          v_18[1] = ((buffer_20[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]) - v_17[1]);
          float v__197 = buffer_20[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)];
          uint v__198 = (*(uint *)(&(v__197))) & (uint)4294959104;
          v_17[2] = (*(float *)(&(v__198)));
          v_18[2] = ((buffer_20[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]) - v_17[2]);
          float v__199 = buffer_20[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)];
          uint v__200 = (*(uint *)(&(v__199))) & (uint)4294959104;
          v_17[3] = (*(float *)(&(v__200)));
          v_18[3] = ((buffer_20[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]) - v_17[3]);
          float v__201 = v_10[4];
          uint v__202 = (*(uint *)(&(v__201))) & (uint)4294959104;
          v_19[0] = (*(float *)(&(v__202)));
          v_20[0] = (v_10[4] - v_19[0]);
          float v__203 = v_10[6];
          uint v__204 = (*(uint *)(&(v__203))) & (uint)4294959104;
          v_19[2] = (*(float *)(&(v__204)));
          v_20[2] = (v_10[6] - v_19[2]);
          float v__205 = v_10[5];
          uint v__206 = (*(uint *)(&(v__205))) & (uint)4294959104;
          v_19[1] = (*(float *)(&(v__206)));
          v_20[1] = (v_10[5] - v_19[1]);
          float v__207 = v_10[7];
          uint v__208 = (*(uint *)(&(v__207))) & (uint)4294959104;
          v_19[3] = (*(float *)(&(v__208)));
          v_20[3] = (v_10[7] - v_19[3]);
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_19 + 0), reinterpret_cast<const unsigned*>(v_17 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_20 + 0), reinterpret_cast<const unsigned*>(v_17 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_19 + 0), reinterpret_cast<const unsigned*>(v_18 + 0));
          float v__209 = v_10[12];
          uint v__210 = (*(uint *)(&(v__209))) & (uint)4294959104;
          v_19[4] = (*(float *)(&(v__210)));
          v_20[4] = (v_10[12] - v_19[4]);
          float v__211 = v_10[14];
          uint v__212 = (*(uint *)(&(v__211))) & (uint)4294959104;
          v_19[6] = (*(float *)(&(v__212)));
          v_20[6] = (v_10[14] - v_19[6]);
          float v__213 = v_10[13];
          uint v__214 = (*(uint *)(&(v__213))) & (uint)4294959104;
          v_19[5] = (*(float *)(&(v__214)));
          v_20[5] = (v_10[13] - v_19[5]);
          float v__215 = v_10[15];
          uint v__216 = (*(uint *)(&(v__215))) & (uint)4294959104;
          v_19[7] = (*(float *)(&(v__216)));
          v_20[7] = (v_10[15] - v_19[7]);
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_19 + 4), reinterpret_cast<const unsigned*>(v_17 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_20 + 4), reinterpret_cast<const unsigned*>(v_17 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_19 + 4), reinterpret_cast<const unsigned*>(v_19 + 4), reinterpret_cast<const unsigned*>(v_18 + 0));
        }
      }
      tl::cp_async_wait<0>();
      if (kv_only != 0) {
        #pragma unroll
        for (int e_1 = 0; e_1 < 16; ++e_1) {
          zeros_1[e_1] = (signed char)0;
        }
        *(int4*)(((signed char*)state_1) + ((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16))) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 576)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1152)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 1728)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2304)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 2880)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 3456)) = *(int4*)(zeros_1 + 0);
        *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 3) * 144)) + ((((int)threadIdx.x) & 7) * 16)) + 4032)) = *(int4*)(zeros_1 + 0);
      }
      __syncwarp();
      float decay_2 = decay[0];
      rows[0] = (((kv_only == 0) ? ((float*)v_5)[(((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2))] : 0x0p+0f/*0.000000e+00*/) * decay_2);
      rows[1] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 1)] : 0x0p+0f/*0.000000e+00*/) * decay_2);
      rows[2] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 16)] : 0x0p+0f/*0.000000e+00*/) * decay_2);
      rows[3] = (((kv_only == 0) ? ((float*)v_5)[((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 17)] : 0x0p+0f/*0.000000e+00*/) * decay_2);
    }
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + ((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)));
    *(int*)(codes + 0) = *(int*)(raw_8 + 0);
    *(int*)(codes + 8) = *(int*)(raw_8 + 4);
    *(int*)(codes + 16) = *(int*)(raw_8 + 8);
    *(int*)(codes + 24) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 144));
    *(int*)(codes + 4) = *(int*)(raw_8 + 0);
    *(int*)(codes + 12) = *(int*)(raw_8 + 4);
    *(int*)(codes + 20) = *(int*)(raw_8 + 8);
    *(int*)(codes + 28) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 64));
    *(int*)(codes + 32) = *(int*)(raw_8 + 0);
    *(int*)(codes + 40) = *(int*)(raw_8 + 4);
    *(int*)(codes + 48) = *(int*)(raw_8 + 8);
    *(int*)(codes + 56) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 208));
    *(int*)(codes + 36) = *(int*)(raw_8 + 0);
    *(int*)(codes + 44) = *(int*)(raw_8 + 4);
    *(int*)(codes + 52) = *(int*)(raw_8 + 8);
    *(int*)(codes + 60) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 2304));
    *(int*)(codes + 64) = *(int*)(raw_8 + 0);
    *(int*)(codes + 72) = *(int*)(raw_8 + 4);
    *(int*)(codes + 80) = *(int*)(raw_8 + 8);
    *(int*)(codes + 88) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 2448));
    *(int*)(codes + 68) = *(int*)(raw_8 + 0);
    *(int*)(codes + 76) = *(int*)(raw_8 + 4);
    *(int*)(codes + 84) = *(int*)(raw_8 + 8);
    *(int*)(codes + 92) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 2368));
    *(int*)(codes + 96) = *(int*)(raw_8 + 0);
    *(int*)(codes + 104) = *(int*)(raw_8 + 4);
    *(int*)(codes + 112) = *(int*)(raw_8 + 8);
    *(int*)(codes + 120) = *(int*)(raw_8 + 12);
    *(int4*)(raw_8 + 0) = *(int4*)(((signed char*)state_1) + (((((((int)threadIdx.x) >> 5) * 4608) + (((((int)threadIdx.x) & 31) >> 2) * 288)) + ((((int)threadIdx.x) & 3) * 16)) + 2512));
    *(int*)(codes + 100) = *(int*)(raw_8 + 0);
    *(int*)(codes + 108) = *(int*)(raw_8 + 4);
    *(int*)(codes + 116) = *(int*)(raw_8 + 8);
    *(int*)(codes + 124) = *(int*)(raw_8 + 12);
    #pragma unroll
    for (int i_6 = 0; i_6 < 8; ++i_6) {
      buffer_21[i_6] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int i_7 = 0; i_7 < 8; ++i_7) {
      sums[i_7] = 0;
    }
    *(uint4*)(digits + 0) = *(uint4*)(((uint*)v_4) + ((((int)threadIdx.x) & 31) * 4));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 0), reinterpret_cast<const unsigned*>(codes + 0), reinterpret_cast<const unsigned*>(digits + 0));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 0), reinterpret_cast<const unsigned*>(codes + 16), reinterpret_cast<const unsigned*>(digits + 2));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 4), reinterpret_cast<const unsigned*>(codes + 64), reinterpret_cast<const unsigned*>(digits + 0));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 4), reinterpret_cast<const unsigned*>(codes + 80), reinterpret_cast<const unsigned*>(digits + 2));
    *(uint4*)(digits + 0) = *(uint4*)(((uint*)v_4) + (((((int)threadIdx.x) & 31) * 4) + 128));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 0), reinterpret_cast<const unsigned*>(codes + 32), reinterpret_cast<const unsigned*>(digits + 0));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 0), reinterpret_cast<const unsigned*>(codes + 48), reinterpret_cast<const unsigned*>(digits + 2));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 4), reinterpret_cast<const unsigned*>(codes + 96), reinterpret_cast<const unsigned*>(digits + 0));
    tl::mma_sync<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 16, 8, 32, false, true>(reinterpret_cast<unsigned*>(sums + 4), reinterpret_cast<const unsigned*>(codes + 112), reinterpret_cast<const unsigned*>(digits + 2));
    parts[0] = ((float)((sums[0] * 256) + sums[1]));
    parts[1] = ((float)((sums[2] * 256) + sums[3]));
    parts[2] = ((float)((sums[4] * 256) + sums[5]));
    parts[3] = ((float)((sums[6] * 256) + sums[7]));
    parts[0] = (((((int)threadIdx.x) % 2) == 0) ? (parts[0] * 0x1p+16f/*6.553600e+04*/) : parts[0]);
    buffer_21[0] = (parts[0] + __shfl_xor_sync((uint)4294967295, parts[0], 1, 32));
    buffer_21[0] = ((buffer_21[0] * ((float*)v_7)[((((int)threadIdx.x) & 3) >> 1)]) * rows[0]);
    parts[1] = (((((int)threadIdx.x) % 2) == 0) ? (parts[1] * 0x1p+16f/*6.553600e+04*/) : parts[1]);
    buffer_21[2] = (parts[1] + __shfl_xor_sync((uint)4294967295, parts[1], 1, 32));
    buffer_21[2] = ((buffer_21[2] * ((float*)v_7)[((((int)threadIdx.x) & 3) >> 1)]) * rows[1]);
    parts[2] = (((((int)threadIdx.x) % 2) == 0) ? (parts[2] * 0x1p+16f/*6.553600e+04*/) : parts[2]);
    buffer_21[4] = (parts[2] + __shfl_xor_sync((uint)4294967295, parts[2], 1, 32));
    buffer_21[4] = ((buffer_21[4] * ((float*)v_7)[((((int)threadIdx.x) & 3) >> 1)]) * rows[2]);
    parts[3] = (((((int)threadIdx.x) % 2) == 0) ? (parts[3] * 0x1p+16f/*6.553600e+04*/) : parts[3]);
    buffer_21[6] = (parts[3] + __shfl_xor_sync((uint)4294967295, parts[3], 1, 32));
    buffer_21[6] = ((buffer_21[6] * ((float*)v_7)[((((int)threadIdx.x) & 3) >> 1)]) * rows[3]);
    pair[0] = (buffer_21[0] + buffer_19[0]);
    pair[1] = (buffer_21[2] + buffer_19[2]);
    *(float2*)(((float*)v_3) + (((((((int)threadIdx.x) & 3) >> 1) * 132) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2))) = *(float2*)(pair + 0);
    pair_1[0] = (buffer_21[4] + buffer_19[4]);
    pair_1[1] = (buffer_21[6] + buffer_19[6]);
    *(float2*)(((float*)v_3) + ((((((((int)threadIdx.x) & 3) >> 1) * 132) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 16)) = *(float2*)(pair_1 + 0);
    __syncthreads();
    float value_12 = ((float*)v_3)[((int)threadIdx.x)];
    read[0] = value_12;
    float value_13 = ((float*)v_3)[(((int)threadIdx.x) + 132)];
    read_1[0] = value_13;
    v_21[0] = 0x1p+0f/*1.000000e+00*/;
    read[0] = (read[0] * v_21[0]);
    read[0] = (read[0] * ((float*)v_6)[4]);
    read_1[0] = (read_1[0] * v_21[0]);
    read_1[0] = (read_1[0] * (((float*)v_6)[6] * ((float*)v_6)[7]));
    v_30[0] = (((float*)v_6)[8] * (((float)buffer_6[0]) - (((float*)v_6)[9] * read[0])));
    v_31[0] = v_30[0];
    v_32[0] = 0x1p+0f/*1.000000e+00*/;
    v_32[0] = (v_32[0] * ((float*)v_6)[11]);
    v_21[0] = (v_21[0] * v_32[0]);
    v_31[0] = (v_31[0] * ((float*)v_6)[4]);
    float result = ((((float*)v_6)[9] * read_1[0]) + (v_30[0] * ((float*)v_6)[10]));
    out[int64_t(((((((int)blockIdx.x) / HV) * ((int)out_s0)) + ((((int)blockIdx.x) % HV) * ((int)out_s1))) + ((int)threadIdx.x)))] = ((bfloat16_t)result);
    record_left0[((int64_t((((((int)blockIdx.x) % HV) * ((int)record_left0_s2)) + ((int)threadIdx.x))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(base + count)), ((uint)((base + count) - R)))) * int64_t(((uint)record_left0_s1))))] = v_30[0];
  } else {
    out[int64_t(((((((int)blockIdx.x) / HV) * ((int)out_s0)) + ((((int)blockIdx.x) % HV) * ((int)out_s1))) + ((int)threadIdx.x)))] = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    if (((((int)blockIdx.x) % HV) == 0) && (((int)threadIdx.x) == 0)) {
      if (((((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) == 0) && (0 <= slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))])) && (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] < P)) {
        if (((((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != 0) || (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] < 0)) || (N <= rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))])) {
          cursors[int64_t(((((int)cursors_s0) * 3) + slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))]))] = -1;
          if ((rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] != -1) || (((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != -1)) {
            cursors[int64_t(P)] = ((((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) == (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31)) ? rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] : ((((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) < 0) ? -2147483648 : 2147483647));
          }
          if ((rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] != -1) || (((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != -1)) {
            cursors[int64_t(((((int)cursors_s0) * 4) + P))] = 1;
          }
        }
      } else {
        if ((slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] != -1) || (((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) != -1)) {
          cursors[int64_t(P)] = ((((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) == (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31)) ? slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] : ((((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) < 0) ? -2147483648 : 2147483647));
        }
        if ((slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] != -1) || (((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) != -1)) {
          cursors[int64_t(((((int)cursors_s0) * 4) + P))] = 1;
        }
      }
    }
  }
  cudaTriggerProgrammaticLaunchCompletion();
}

