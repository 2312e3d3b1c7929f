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

extern "C" __global__ void kvb_verify_gated_delta_rule_488a9dee(const int* __restrict__ lengths, const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t lengths_s0, int lengths_words, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ a, const bfloat16_t* __restrict__ b, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t a_s0, int64_t a_s1, int64_t a_s2, int64_t b_s0, int64_t b_s1, int64_t b_s2, int64_t k_s0, int64_t k_s1, int64_t k_s2, int64_t q_s0, int64_t q_s1, int64_t q_s2, int64_t v_s0, int64_t v_s1, int64_t v_s2, const float* __restrict__ A_log, const float* __restrict__ dt_bias, int64_t A_log_s0, int64_t dt_bias_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, float* __restrict__ record_log_decay, float* __restrict__ record_scale0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, int64_t record_log_decay_s0, int64_t record_log_decay_s1, int64_t record_log_decay_s2, int64_t record_scale0_s0, int64_t record_scale0_s1, int64_t record_scale0_s2, half_t* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1, int64_t out_s2);
extern "C" __global__ void __launch_bounds__(128, 4) kvb_verify_gated_delta_rule_488a9dee(const int* __restrict__ lengths, const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t lengths_s0, int lengths_words, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ a, const bfloat16_t* __restrict__ b, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t a_s0, int64_t a_s1, int64_t a_s2, int64_t b_s0, int64_t b_s1, int64_t b_s2, int64_t k_s0, int64_t k_s1, int64_t k_s2, int64_t q_s0, int64_t q_s1, int64_t q_s2, int64_t v_s0, int64_t v_s1, int64_t v_s2, const float* __restrict__ A_log, const float* __restrict__ dt_bias, int64_t A_log_s0, int64_t dt_bias_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, float* __restrict__ record_log_decay, float* __restrict__ record_scale0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, int64_t record_log_decay_s0, int64_t record_log_decay_s1, int64_t record_log_decay_s2, int64_t record_scale0_s0, int64_t record_scale0_s1, int64_t record_scale0_s2, half_t* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1, int64_t out_s2) {
  cudaGridDependencySynchronize();
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* state_1 = ((void*)((char*)buf_dyn_shmem + 0));
  void* keys = ((void*)((char*)buf_dyn_shmem + 34816));
  void* v_1 = ((void*)((char*)buf_dyn_shmem + 40256));
  void* reads = ((void*)((char*)buf_dyn_shmem + 44480));
  void* v_2 = ((void*)((char*)buf_dyn_shmem + 46656));
  void* v_3 = ((void*)((char*)buf_dyn_shmem + 46848));
  void* weights = ((void*)((char*)buf_dyn_shmem + 46976));
  float buffer[1];
  bfloat16_t buffer_1[1];
  float buffer_2[1];
  bfloat16_t buffer_3[8];
  bfloat16_t buffer_4[8];
  bfloat16_t buffer_5[1];
  float v_4[1];
  float v_5[1];
  float raw[2];
  float v_6[16];
  float raw_1[2];
  float raw_2[2];
  float raw_3[2];
  float raw_4[2];
  float raw_5[2];
  float raw_6[2];
  float raw_7[2];
  bfloat16_t buffer_6[4];
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
  float v_7[16];
  bfloat16_t values[8];
  bfloat16_t values_1[8];
  float v_8[1];
  float other[1];
  float buffer_19[4];
  float buffer_20[8];
  float buffer_21[8];
  float buffer_22[8];
  float decay[1];
  float values_2[6];
  uint part[8];
  uint part_1[8];
  uint part_2[8];
  float values_3[6];
  float values_4[6];
  float values_5[6];
  float values_6[6];
  float values_7[6];
  float values_8[6];
  float values_9[6];
  half_t zeros[8];
  float buffer_23[8];
  float v_9[4];
  float v_10[4];
  float v_11[8];
  float v_12[8];
  float v_13[4];
  float v_14[4];
  float v_15[8];
  float v_16[8];
  half_t zeros_1[8];
  float pair[2];
  float pair_1[2];
  float pair_2[2];
  float pair_3[2];
  float read[4];
  float read_1[4];
  float v_17[1];
  bfloat16_t values_10[8];
  float v_18[8];
  float buffer_24[4];
  uint v_19[4];
  uint v_20[4];
  uint v_21[4];
  uint v_22[8];
  uint v_23[8];
  float buffer_25[16];
  uint v_24[4];
  float values_11[2];
  half_t stored[2];
  uint v_25[8];
  float values_12[2];
  half_t stored_1[2];
  float values_13[2];
  half_t stored_2[2];
  float values_14[2];
  half_t stored_3[2];
  float values_15[2];
  half_t stored_4[2];
  float values_16[2];
  half_t stored_5[2];
  float values_17[2];
  half_t stored_6[2];
  float values_18[2];
  half_t stored_7[2];
  float buffer_26[16];
  uint v_26[4];
  float values_19[2];
  half_t stored_8[2];
  uint v_27[8];
  float values_20[2];
  half_t stored_9[2];
  float values_21[2];
  half_t stored_10[2];
  float values_22[2];
  half_t stored_11[2];
  float values_23[2];
  half_t stored_12[2];
  float values_24[2];
  half_t stored_13[2];
  float values_25[2];
  half_t stored_14[2];
  float values_26[2];
  half_t stored_15[2];
  uint v_28[2];
  float v_29[4];
  float v_30[2];
  float v_31[4];
  float v_32[2];
  uint v_33[2];
  float v_34[4];
  float v_35[2];
  float v_36[4];
  float v_37[2];
  float buffer_27[8];
  uint v_38[4];
  uint v_39[4];
  uint v_40[4];
  uint v_41[4];
  uint v_42[8];
  uint v_43[2];
  float v_44[4];
  float v_45[2];
  float v_46[4];
  float v_47[2];
  float v_48[4];
  float v_49[4];
  float v_50[1];
  int slot = slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))];
  int slot_rest = ((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]);
  int ring = rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))];
  int ring_rest = ((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]);
  int count = cursors[int64_t((max(min(slot, P), 0) + ((int)cursors_s0)))];
  int base = cursors[int64_t(max(min(slot, P), 0))];
  int kv_only = cursors[int64_t(((((int)cursors_s0) * 2) + max(min(slot, P), 0)))];
  int length = lengths[int64_t(((((int)blockIdx.x) / HV) * ((int)lengths_s0)))];
  int length_rest = ((lengths_words == 1) ? (lengths[int64_t(((((int)blockIdx.x) / HV) * ((int)lengths_s0)))] >> 31) : lengths[int64_t(((((((int)blockIdx.x) / HV) * ((int)lengths_s0)) + lengths_words) - 1))]);
  if ((((((((((slot_rest == 0) && (0 <= slot)) && (slot < P)) && (ring_rest == 0)) && (0 <= ring)) && (ring < N)) && (length_rest == 0)) && (0 <= length)) && (length < 5)) && (0 < length)) {
    if (((((int)blockIdx.x) % HV) == 0) && (((int)threadIdx.x) == 0)) {
      cursors[int64_t(((((int)cursors_s0) * 3) + slot))] = length;
    }
    if (((int)threadIdx.x) < 64) {
      buffer[0] = A_log[int64_t(((((int)blockIdx.x) % HV) * ((int)A_log_s0)))];
      buffer_1[0] = a[int64_t(((((((int)blockIdx.x) / HV) * ((int)a_s0)) + ((((int)threadIdx.x) >> 4) * ((int)a_s1))) + ((((int)blockIdx.x) % HV) * ((int)a_s2))))];
      buffer_2[0] = dt_bias[int64_t(((((int)blockIdx.x) % HV) * ((int)dt_bias_s0)))];
      *(uint4*)(buffer_3 + 0) = *(uint4*)(k + int64_t((((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)k_s0))) + ((((int)threadIdx.x) >> 4) * ((int)k_s1))) + (((((int)blockIdx.x) % HV) / 2) * ((int)k_s2)))));
      *(uint4*)(buffer_4 + 0) = *(uint4*)(q + int64_t((((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) / HV) * ((int)q_s0))) + ((((int)threadIdx.x) >> 4) * ((int)q_s1))) + (((((int)blockIdx.x) % HV) / 2) * ((int)q_s2)))));
      buffer_5[0] = b[int64_t(((((((int)blockIdx.x) / HV) * ((int)b_s0)) + ((((int)threadIdx.x) >> 4) * ((int)b_s1))) + ((((int)blockIdx.x) % HV) * ((int)b_s2))))];
    }
    tl::cp_async_gs_conditional<16>((&(((bfloat16_t*)keys)[(((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8))])), (&(record_k[((int64_t((((((int)threadIdx.x) & 15) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) >> 4), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) >> 4), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_k_s1))))])), ((((int)threadIdx.x) >> 4) < count));
    tl::cp_async_gs_conditional<16>((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8)) + 1088)])), (&(record_k[((int64_t((((((int)threadIdx.x) & 15) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) >> 4) + 8), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) >> 4) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_k_s1))))])), (((((int)threadIdx.x) >> 4) + 8) < count));
    tl::cp_async_commit();
    if ((((int)threadIdx.x) >> 5) == 3) {
      v_4[0] = record_log_decay[((int64_t(((((int)blockIdx.x) % HV) * ((int)record_log_decay_s2))) + (((int64_t)ring) * record_log_decay_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_log_decay_s1))))];
      v_5[0] = record_scale0[((int64_t((((((int)blockIdx.x) % HV) / 2) * ((int)record_scale0_s2))) + (((int64_t)ring) * record_scale0_s0)) + (int64_t(min(((uint)(max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base)), ((uint)((max(min((((int)threadIdx.x) & 15), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_scale0_s1))))];
    }
    *(float2*)(raw + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[0] = raw[0];
    v_6[1] = raw[1];
    *(float2*)(raw_1 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base)), ((uint)((max(min(((((int)threadIdx.x) & 3) * 2), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[8] = raw_1[0];
    v_6[9] = raw_1[1];
    *(float2*)(raw_2 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[2] = raw_2[0];
    v_6[3] = raw_2[1];
    *(float2*)(raw_3 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 1), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[10] = raw_3[0];
    v_6[11] = raw_3[1];
    *(float2*)(raw_4 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[4] = raw_4[0];
    v_6[5] = raw_4[1];
    *(float2*)(raw_5 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 8), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[12] = raw_5[0];
    v_6[13] = raw_5[1];
    *(float2*)(raw_6 + 0) = *(float2*)(record_left0 + ((int64_t(((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[6] = raw_6[0];
    v_6[7] = raw_6[1];
    *(float2*)(raw_7 + 0) = *(float2*)(record_left0 + ((int64_t((((((((int)threadIdx.x) >> 5) * 32) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + ((((int)blockIdx.x) % HV) * ((int)record_left0_s2))) + 16)) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base)), ((uint)((max(min((((((int)threadIdx.x) & 3) * 2) + 9), (count - 1)), 0) + base) - R)))) * int64_t(((uint)record_left0_s1)))));
    v_6[14] = raw_7[0];
    v_6[15] = raw_7[1];
    #pragma unroll
    for (int t = 0; t < 4; ++t) {
      buffer_6[t] = v[int64_t((((((((int)blockIdx.x) / HV) * ((int)v_s0)) + (t * ((int)v_s1))) + ((((int)blockIdx.x) % HV) * ((int)v_s2))) + ((int)threadIdx.x)))];
    }
    __syncwarp();
    tl::cp_async_gs<16>((&(((half_t*)state_1)[((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8))])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + ((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 272)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 2) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 544)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 4) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 816)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 6) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1088)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 8) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1360)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 10) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1632)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 12) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1904)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 14) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2176)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 16) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2448)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 18) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2720)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 20) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2992)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 22) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3264)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 24) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3536)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 26) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3808)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 28) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_gs<16>((&(((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 4080)])), (&(state[(int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 30) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))])));
    tl::cp_async_commit();
    if (((int)threadIdx.x) < 64) {
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
        v_7[c_3] = ((float)buffer_3[c_3]);
      }
      #pragma unroll
      for (int c_4 = 0; c_4 < 8; ++c_4) {
        v_7[(c_4 + 8)] = ((float)buffer_4[c_4]);
      }
      #pragma unroll
      for (int c_5 = 0; c_5 < 8; ++c_5) {
        v_18[c_5] = (((float)buffer_3[c_5]) * buffer_16[0]);
      }
      #pragma unroll
      for (int c_6 = 0; c_6 < 8; ++c_6) {
        values[c_6] = buffer_3[c_6];
      }
      *(uint4*)(((bfloat16_t*)reads) + (((((int)threadIdx.x) >> 4) * 272) + ((((int)threadIdx.x) & 15) * 8))) = *(uint4*)(values + 0);
      #pragma unroll
      for (int c_7 = 0; c_7 < 8; ++c_7) {
        values[c_7] = buffer_4[c_7];
      }
      *(uint4*)(((bfloat16_t*)reads) + ((((((int)threadIdx.x) >> 4) * 272) + ((((int)threadIdx.x) & 15) * 8)) + 136)) = *(uint4*)(values + 0);
      #pragma unroll
      for (int c_8 = 0; c_8 < 8; ++c_8) {
        values_1[c_8] = buffer_3[c_8];
      }
      *(uint4*)(((bfloat16_t*)keys) + ((((((int)threadIdx.x) >> 4) * 136) + ((((int)threadIdx.x) & 15) * 8)) + 2176)) = *(uint4*)(values_1 + 0);
      if ((((int)threadIdx.x) % 16) == 0) {
        ((float*)v_2)[((((int)threadIdx.x) >> 4) * 12)] = buffer_7[0];
      }
      if ((((int)threadIdx.x) & 15) == 1) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 1)] = buffer_8[0];
      }
      if ((((int)threadIdx.x) & 15) == 2) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 2)] = buffer_9[0];
      }
      if ((((int)threadIdx.x) & 15) == 3) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 3)] = buffer_13[0];
      }
      if ((((int)threadIdx.x) & 15) == 4) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 4)] = buffer_16[0];
      }
      if ((((int)threadIdx.x) & 15) == 5) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 5)] = buffer_14[0];
      }
      if ((((int)threadIdx.x) & 15) == 6) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 6)] = buffer_17[0];
      }
      if ((((int)threadIdx.x) & 15) == 7) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 7)] = buffer_10[0];
      }
      if ((((int)threadIdx.x) & 15) == 8) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 8)] = buffer_11[0];
      }
      if ((((int)threadIdx.x) & 15) == 9) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 9)] = buffer_12[0];
      }
      if ((((int)threadIdx.x) & 15) == 10) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 10)] = buffer_18[0];
      }
      if ((((int)threadIdx.x) % 16) == 0) {
        ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 11)] = expf(buffer_9[0]);
      }
    }
    if ((((int)threadIdx.x) >> 5) == 3) {
      v_8[0] = 0x0p+0f/*0.000000e+00*/;
      v_4[0] = (((((int)threadIdx.x) & 15) < count) ? v_4[0] : 0x0p+0f/*0.000000e+00*/);
      v_5[0] = (((((int)threadIdx.x) & 15) < count) ? v_5[0] : 0x0p+0f/*0.000000e+00*/);
      other[0] = __shfl_down_sync((uint)4294967295, v_4[0], 1, 16);
      v_4[0] = (v_4[0] + (((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_4[0], 2, 16);
      v_4[0] = (v_4[0] + (((((int)threadIdx.x) & 15) < 14) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_4[0], 4, 16);
      v_4[0] = (v_4[0] + (((((int)threadIdx.x) & 15) < 12) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_4[0], 8, 16);
      v_4[0] = (v_4[0] + (((((int)threadIdx.x) & 15) < 8) ? other[0] : 0x0p+0f/*0.000000e+00*/));
      other[0] = __shfl_down_sync((uint)4294967295, v_4[0], 1, 16);
      other[0] = ((((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/) + v_8[0]);
      v_8[0] = (v_8[0] + __shfl_sync((uint)4294967295, v_4[0], 0, 16));
      v_4[0] = other[0];
      v_4[0] = expf(v_4[0]);
      v_5[0] = (v_5[0] * v_4[0]);
      ((float*)weights)[(((int)threadIdx.x) & 15)] = v_5[0];
      ((float*)weights)[16] = expf(v_8[0]);
    }
    tl::cp_async_wait<1>();
    __syncthreads();
    if ((((int)threadIdx.x) >> 5) == 3) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        buffer_19[i] = 0x0p+0f/*0.000000e+00*/;
      }
      #pragma unroll
      for (int i_1 = 0; i_1 < 4; ++i_1) {
        buffer_24[i_1] = 0x0p+0f/*0.000000e+00*/;
      }
      #pragma unroll
      for (int c_9 = 0; c_9 < 4; ++c_9) {
        tl::ptx_ldmatrix_x4((&(((bfloat16_t*)keys)[(((min(((((int)threadIdx.x) & 7) + 16), 19) * 136) + (c_9 * 32)) + (((((int)threadIdx.x) & 31) >> 3) * 8))])), (&(v_19[0])));
        tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[(((min((((int)threadIdx.x) & 15), 7) * 136) + (c_9 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_20[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_20 + 0), reinterpret_cast<const unsigned*>(v_19 + 0));
        tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[((((min((((int)threadIdx.x) & 15), 7) * 136) + (c_9 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 16)])), (&(v_21[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_19 + 0), reinterpret_cast<const unsigned*>(v_21 + 0), reinterpret_cast<const unsigned*>(v_19 + 2));
      }
      if ((((int)threadIdx.x) & 3) < 2) {
        ((float*)v_3)[(((((int)threadIdx.x) & 3) * 16) + ((((int)threadIdx.x) & 31) >> 2))] = buffer_19[0];
        ((float*)v_3)[((((((int)threadIdx.x) & 3) * 16) + ((((int)threadIdx.x) & 31) >> 2)) + 8)] = buffer_19[1];
      }
    }
    #pragma unroll
    for (int i_2 = 0; i_2 < 8; ++i_2) {
      buffer_20[i_2] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int i_3 = 0; i_3 < 8; ++i_3) {
      buffer_21[i_3] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int i_4 = 0; i_4 < 8; ++i_4) {
      buffer_22[i_4] = 0x0p+0f/*0.000000e+00*/;
    }
    decay[0] = ((kv_only == 0) ? ((float*)weights)[16] : 0x0p+0f/*0.000000e+00*/);
    if ((0 < count) && (((kv_only != 0) ? 0 : 8) < (count + length))) {
      v_6[0] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[0] : 0x0p+0f/*0.000000e+00*/);
      v_6[1] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[1] : 0x0p+0f/*0.000000e+00*/);
      v_6[8] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[8] : 0x0p+0f/*0.000000e+00*/);
      v_6[9] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[9] : 0x0p+0f/*0.000000e+00*/);
      v_6[2] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[2] : 0x0p+0f/*0.000000e+00*/);
      v_6[3] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[3] : 0x0p+0f/*0.000000e+00*/);
      v_6[10] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[10] : 0x0p+0f/*0.000000e+00*/);
      v_6[11] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[11] : 0x0p+0f/*0.000000e+00*/);
      v_6[4] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[4] : 0x0p+0f/*0.000000e+00*/);
      v_6[5] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[5] : 0x0p+0f/*0.000000e+00*/);
      v_6[12] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[12] : 0x0p+0f/*0.000000e+00*/);
      v_6[13] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[13] : 0x0p+0f/*0.000000e+00*/);
      v_6[6] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[6] : 0x0p+0f/*0.000000e+00*/);
      v_6[7] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[7] : 0x0p+0f/*0.000000e+00*/);
      v_6[14] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[14] : 0x0p+0f/*0.000000e+00*/);
      v_6[15] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[15] : 0x0p+0f/*0.000000e+00*/);
      values_2[0] = (v_6[0] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_2[1] = (v_6[2] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v_ = values_2[0];
      float v__1 = values_2[1];
      part[0] = __byte_perm((*(uint *)(&(v_))), (*(uint *)(&(v__1))), (uint)30258);
      uint v__2 = (*(uint *)(&(v_))) & (uint)4294901760;
      values_2[2] = (values_2[0] - (*(float *)(&(v__2))));
      uint v__3 = (*(uint *)(&(v__1))) & (uint)4294901760;
      values_2[3] = (values_2[1] - (*(float *)(&(v__3))));
      float v__4 = values_2[2];
      float v__5 = values_2[3];
      part_1[0] = __byte_perm((*(uint *)(&(v__4))), (*(uint *)(&(v__5))), (uint)30258);
      uint v__6 = (*(uint *)(&(v__4))) & (uint)4294901760;
      values_2[4] = (values_2[2] - (*(float *)(&(v__6))));
      uint v__7 = (*(uint *)(&(v__5))) & (uint)4294901760;
      values_2[5] = (values_2[3] - (*(float *)(&(v__7))));
      float v__8 = values_2[4];
      float v__9 = values_2[5];
      part_2[0] = __byte_perm((*(uint *)(&(v__8))), (*(uint *)(&(v__9))), (uint)30258);
      values_3[0] = (v_6[1] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_3[1] = (v_6[3] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__10 = values_3[0];
      float v__11 = values_3[1];
      part[1] = __byte_perm((*(uint *)(&(v__10))), (*(uint *)(&(v__11))), (uint)30258);
      uint v__12 = (*(uint *)(&(v__10))) & (uint)4294901760;
      values_3[2] = (values_3[0] - (*(float *)(&(v__12))));
      uint v__13 = (*(uint *)(&(v__11))) & (uint)4294901760;
      values_3[3] = (values_3[1] - (*(float *)(&(v__13))));
      float v__14 = values_3[2];
      float v__15 = values_3[3];
      part_1[1] = __byte_perm((*(uint *)(&(v__14))), (*(uint *)(&(v__15))), (uint)30258);
      uint v__16 = (*(uint *)(&(v__14))) & (uint)4294901760;
      values_3[4] = (values_3[2] - (*(float *)(&(v__16))));
      uint v__17 = (*(uint *)(&(v__15))) & (uint)4294901760;
      values_3[5] = (values_3[3] - (*(float *)(&(v__17))));
      float v__18 = values_3[4];
      float v__19 = values_3[5];
      part_2[1] = __byte_perm((*(uint *)(&(v__18))), (*(uint *)(&(v__19))), (uint)30258);
      values_4[0] = (v_6[8] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_4[1] = (v_6[10] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__20 = values_4[0];
      float v__21 = values_4[1];
      part[4] = __byte_perm((*(uint *)(&(v__20))), (*(uint *)(&(v__21))), (uint)30258);
      uint v__22 = (*(uint *)(&(v__20))) & (uint)4294901760;
      values_4[2] = (values_4[0] - (*(float *)(&(v__22))));
      uint v__23 = (*(uint *)(&(v__21))) & (uint)4294901760;
      values_4[3] = (values_4[1] - (*(float *)(&(v__23))));
      float v__24 = values_4[2];
      float v__25 = values_4[3];
      part_1[4] = __byte_perm((*(uint *)(&(v__24))), (*(uint *)(&(v__25))), (uint)30258);
      uint v__26 = (*(uint *)(&(v__24))) & (uint)4294901760;
      values_4[4] = (values_4[2] - (*(float *)(&(v__26))));
      uint v__27 = (*(uint *)(&(v__25))) & (uint)4294901760;
      values_4[5] = (values_4[3] - (*(float *)(&(v__27))));
      float v__28 = values_4[4];
      float v__29 = values_4[5];
      part_2[4] = __byte_perm((*(uint *)(&(v__28))), (*(uint *)(&(v__29))), (uint)30258);
      values_5[0] = (v_6[9] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
      values_5[1] = (v_6[11] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
      float v__30 = values_5[0];
      float v__31 = values_5[1];
      part[5] = __byte_perm((*(uint *)(&(v__30))), (*(uint *)(&(v__31))), (uint)30258);
      uint v__32 = (*(uint *)(&(v__30))) & (uint)4294901760;
      values_5[2] = (values_5[0] - (*(float *)(&(v__32))));
      uint v__33 = (*(uint *)(&(v__31))) & (uint)4294901760;
      values_5[3] = (values_5[1] - (*(float *)(&(v__33))));
      float v__34 = values_5[2];
      float v__35 = values_5[3];
      part_1[5] = __byte_perm((*(uint *)(&(v__34))), (*(uint *)(&(v__35))), (uint)30258);
      uint v__36 = (*(uint *)(&(v__34))) & (uint)4294901760;
      values_5[4] = (values_5[2] - (*(float *)(&(v__36))));
      uint v__37 = (*(uint *)(&(v__35))) & (uint)4294901760;
      values_5[5] = (values_5[3] - (*(float *)(&(v__37))));
      float v__38 = values_5[4];
      float v__39 = values_5[5];
      part_2[5] = __byte_perm((*(uint *)(&(v__38))), (*(uint *)(&(v__39))), (uint)30258);
      values_6[0] = (v_6[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_6[1] = (v_6[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__40 = values_6[0];
      float v__41 = values_6[1];
      part[2] = __byte_perm((*(uint *)(&(v__40))), (*(uint *)(&(v__41))), (uint)30258);
      uint v__42 = (*(uint *)(&(v__40))) & (uint)4294901760;
      values_6[2] = (values_6[0] - (*(float *)(&(v__42))));
      uint v__43 = (*(uint *)(&(v__41))) & (uint)4294901760;
      values_6[3] = (values_6[1] - (*(float *)(&(v__43))));
      float v__44 = values_6[2];
      float v__45 = values_6[3];
      part_1[2] = __byte_perm((*(uint *)(&(v__44))), (*(uint *)(&(v__45))), (uint)30258);
      uint v__46 = (*(uint *)(&(v__44))) & (uint)4294901760;
      values_6[4] = (values_6[2] - (*(float *)(&(v__46))));
      uint v__47 = (*(uint *)(&(v__45))) & (uint)4294901760;
      values_6[5] = (values_6[3] - (*(float *)(&(v__47))));
      float v__48 = values_6[4];
      float v__49 = values_6[5];
      part_2[2] = __byte_perm((*(uint *)(&(v__48))), (*(uint *)(&(v__49))), (uint)30258);
      values_7[0] = (v_6[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_7[1] = (v_6[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__50 = values_7[0];
      float v__51 = values_7[1];
      part[3] = __byte_perm((*(uint *)(&(v__50))), (*(uint *)(&(v__51))), (uint)30258);
      uint v__52 = (*(uint *)(&(v__50))) & (uint)4294901760;
      values_7[2] = (values_7[0] - (*(float *)(&(v__52))));
      uint v__53 = (*(uint *)(&(v__51))) & (uint)4294901760;
      values_7[3] = (values_7[1] - (*(float *)(&(v__53))));
      float v__54 = values_7[2];
      float v__55 = values_7[3];
      part_1[3] = __byte_perm((*(uint *)(&(v__54))), (*(uint *)(&(v__55))), (uint)30258);
      uint v__56 = (*(uint *)(&(v__54))) & (uint)4294901760;
      values_7[4] = (values_7[2] - (*(float *)(&(v__56))));
      uint v__57 = (*(uint *)(&(v__55))) & (uint)4294901760;
      values_7[5] = (values_7[3] - (*(float *)(&(v__57))));
      float v__58 = values_7[4];
      float v__59 = values_7[5];
      part_2[3] = __byte_perm((*(uint *)(&(v__58))), (*(uint *)(&(v__59))), (uint)30258);
      values_8[0] = (v_6[12] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_8[1] = (v_6[14] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__60 = values_8[0];
      float v__61 = values_8[1];
      part[6] = __byte_perm((*(uint *)(&(v__60))), (*(uint *)(&(v__61))), (uint)30258);
      uint v__62 = (*(uint *)(&(v__60))) & (uint)4294901760;
      values_8[2] = (values_8[0] - (*(float *)(&(v__62))));
      uint v__63 = (*(uint *)(&(v__61))) & (uint)4294901760;
      values_8[3] = (values_8[1] - (*(float *)(&(v__63))));
      float v__64 = values_8[2];
      float v__65 = values_8[3];
      part_1[6] = __byte_perm((*(uint *)(&(v__64))), (*(uint *)(&(v__65))), (uint)30258);
      uint v__66 = (*(uint *)(&(v__64))) & (uint)4294901760;
      values_8[4] = (values_8[2] - (*(float *)(&(v__66))));
      uint v__67 = (*(uint *)(&(v__65))) & (uint)4294901760;
      values_8[5] = (values_8[3] - (*(float *)(&(v__67))));
      float v__68 = values_8[4];
      float v__69 = values_8[5];
      part_2[6] = __byte_perm((*(uint *)(&(v__68))), (*(uint *)(&(v__69))), (uint)30258);
      values_9[0] = (v_6[13] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]);
      values_9[1] = (v_6[15] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]);
      float v__70 = values_9[0];
      float v__71 = values_9[1];
      part[7] = __byte_perm((*(uint *)(&(v__70))), (*(uint *)(&(v__71))), (uint)30258);
      uint v__72 = (*(uint *)(&(v__70))) & (uint)4294901760;
      values_9[2] = (values_9[0] - (*(float *)(&(v__72))));
      uint v__73 = (*(uint *)(&(v__71))) & (uint)4294901760;
      values_9[3] = (values_9[1] - (*(float *)(&(v__73))));
      float v__74 = values_9[2];
      float v__75 = values_9[3];
      part_1[7] = __byte_perm((*(uint *)(&(v__74))), (*(uint *)(&(v__75))), (uint)30258);
      uint v__76 = (*(uint *)(&(v__74))) & (uint)4294901760;
      values_9[4] = (values_9[2] - (*(float *)(&(v__76))));
      uint v__77 = (*(uint *)(&(v__75))) & (uint)4294901760;
      values_9[5] = (values_9[3] - (*(float *)(&(v__77))));
      float v__78 = values_9[4];
      float v__79 = values_9[5];
      part_2[7] = __byte_perm((*(uint *)(&(v__78))), (*(uint *)(&(v__79))), (uint)30258);
      tl::cp_async_wait<0>();
      if (kv_only != 0) {
        #pragma unroll
        for (int e = 0; e < 8; ++e) {
          zeros[e] = half_t(0x0p+0f/*0.000000e+00*/);
        }
        *(uint4*)(((half_t*)state_1) + ((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8))) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 272)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 544)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 816)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1088)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1360)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1632)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1904)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2176)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2448)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2720)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2992)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3264)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3536)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3808)) = *(uint4*)(zeros + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 4080)) = *(uint4*)(zeros + 0);
      }
      __syncwarp();
      #pragma unroll 1
      for (int i_5 = 0; i_5 < 4; ++i_5) {
        float decay_1 = decay[0];
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_22[0])));
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[(((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 2176)])), (&(v_22[4])));
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[(((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 16)])), (&(v_23[0])));
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[(((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 2192)])), (&(v_23[4])));
        #pragma unroll
        for (int i_6 = 0; i_6 < 16; ++i_6) {
          buffer_25[i_6] = 0x0p+0f/*0.000000e+00*/;
        }
        tl::ptx_ldmatrix_x4_trans((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 15) * 136) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_24[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 0), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 0), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 0), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 8), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 8), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 8), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_24 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 4), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 4), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 4), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 12), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 12), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_25 + 12), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_24 + 2));
        ushort v__80 = (ushort)((v_22[0] >> (uint)0) & (uint)65535);
        values_11[0] = ((((float)(*(half_t *)(&(v__80)))) * decay_1) + buffer_25[0]);
        stored[0] = ((half_t)min(max(values_11[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__81 = (ushort)((v_22[0] >> (uint)16) & (uint)65535);
        values_11[1] = ((((float)(*(half_t *)(&(v__81)))) * decay_1) + buffer_25[1]);
        stored[1] = ((half_t)min(max(values_11[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__82 = stored[0];
        half_t v__83 = stored[1];
        v_25[0] = (((uint)(*(ushort *)(&(v__82)))) | (((uint)(*(ushort *)(&(v__83)))) << (uint)16));
        ushort v__84 = (ushort)((v_22[2] >> (uint)0) & (uint)65535);
        values_12[0] = ((((float)(*(half_t *)(&(v__84)))) * decay_1) + buffer_25[4]);
        stored_1[0] = ((half_t)min(max(values_12[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__85 = (ushort)((v_22[2] >> (uint)16) & (uint)65535);
        values_12[1] = ((((float)(*(half_t *)(&(v__85)))) * decay_1) + buffer_25[5]);
        stored_1[1] = ((half_t)min(max(values_12[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__86 = stored_1[0];
        half_t v__87 = stored_1[1];
        v_25[2] = (((uint)(*(ushort *)(&(v__86)))) | (((uint)(*(ushort *)(&(v__87)))) << (uint)16));
        ushort v__88 = (ushort)((v_22[1] >> (uint)0) & (uint)65535);
        values_13[0] = ((((float)(*(half_t *)(&(v__88)))) * decay_1) + buffer_25[2]);
        stored_2[0] = ((half_t)min(max(values_13[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__89 = (ushort)((v_22[1] >> (uint)16) & (uint)65535);
        values_13[1] = ((((float)(*(half_t *)(&(v__89)))) * decay_1) + buffer_25[3]);
        stored_2[1] = ((half_t)min(max(values_13[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__90 = stored_2[0];
        half_t v__91 = stored_2[1];
        v_25[1] = (((uint)(*(ushort *)(&(v__90)))) | (((uint)(*(ushort *)(&(v__91)))) << (uint)16));
        ushort v__92 = (ushort)((v_22[3] >> (uint)0) & (uint)65535);
        values_14[0] = ((((float)(*(half_t *)(&(v__92)))) * decay_1) + buffer_25[6]);
        stored_3[0] = ((half_t)min(max(values_14[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__93 = (ushort)((v_22[3] >> (uint)16) & (uint)65535);
        values_14[1] = ((((float)(*(half_t *)(&(v__93)))) * decay_1) + buffer_25[7]);
        stored_3[1] = ((half_t)min(max(values_14[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__94 = stored_3[0];
        half_t v__95 = stored_3[1];
        v_25[3] = (((uint)(*(ushort *)(&(v__94)))) | (((uint)(*(ushort *)(&(v__95)))) << (uint)16));
        ushort v__96 = (ushort)((v_22[4] >> (uint)0) & (uint)65535);
        values_15[0] = ((((float)(*(half_t *)(&(v__96)))) * decay_1) + buffer_25[8]);
        stored_4[0] = ((half_t)min(max(values_15[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__97 = (ushort)((v_22[4] >> (uint)16) & (uint)65535);
        values_15[1] = ((((float)(*(half_t *)(&(v__97)))) * decay_1) + buffer_25[9]);
        stored_4[1] = ((half_t)min(max(values_15[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__98 = stored_4[0];
        half_t v__99 = stored_4[1];
        v_25[4] = (((uint)(*(ushort *)(&(v__98)))) | (((uint)(*(ushort *)(&(v__99)))) << (uint)16));
        ushort v__100 = (ushort)((v_22[6] >> (uint)0) & (uint)65535);
        values_16[0] = ((((float)(*(half_t *)(&(v__100)))) * decay_1) + buffer_25[12]);
        stored_5[0] = ((half_t)min(max(values_16[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__101 = (ushort)((v_22[6] >> (uint)16) & (uint)65535);
        values_16[1] = ((((float)(*(half_t *)(&(v__101)))) * decay_1) + buffer_25[13]);
        stored_5[1] = ((half_t)min(max(values_16[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__102 = stored_5[0];
        half_t v__103 = stored_5[1];
        v_25[6] = (((uint)(*(ushort *)(&(v__102)))) | (((uint)(*(ushort *)(&(v__103)))) << (uint)16));
        ushort v__104 = (ushort)((v_22[5] >> (uint)0) & (uint)65535);
        values_17[0] = ((((float)(*(half_t *)(&(v__104)))) * decay_1) + buffer_25[10]);
        stored_6[0] = ((half_t)min(max(values_17[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__105 = (ushort)((v_22[5] >> (uint)16) & (uint)65535);
        values_17[1] = ((((float)(*(half_t *)(&(v__105)))) * decay_1) + buffer_25[11]);
        stored_6[1] = ((half_t)min(max(values_17[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__106 = stored_6[0];
        half_t v__107 = stored_6[1];
        v_25[5] = (((uint)(*(ushort *)(&(v__106)))) | (((uint)(*(ushort *)(&(v__107)))) << (uint)16));
        ushort v__108 = (ushort)((v_22[7] >> (uint)0) & (uint)65535);
        values_18[0] = ((((float)(*(half_t *)(&(v__108)))) * decay_1) + buffer_25[14]);
        stored_7[0] = ((half_t)min(max(values_18[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__109 = (ushort)((v_22[7] >> (uint)16) & (uint)65535);
        values_18[1] = ((((float)(*(half_t *)(&(v__109)))) * decay_1) + buffer_25[15]);
        stored_7[1] = ((half_t)min(max(values_18[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__110 = stored_7[0];
        half_t v__111 = stored_7[1];
        v_25[7] = (((uint)(*(ushort *)(&(v__110)))) | (((uint)(*(ushort *)(&(v__111)))) << (uint)16));
        #pragma unroll
        for (int i_7 = 0; i_7 < 16; ++i_7) {
          buffer_26[i_7] = 0x0p+0f/*0.000000e+00*/;
        }
        tl::ptx_ldmatrix_x4_trans((&(((bfloat16_t*)keys)[(((((((int)threadIdx.x) & 15) * 136) + (i_5 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 16)])), (&(v_26[0])));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 0), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 0), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 0), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 8), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 8), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 8), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_26 + 0));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 4), reinterpret_cast<const unsigned*>(part_2 + 0), reinterpret_cast<const unsigned*>(v_26 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 4), reinterpret_cast<const unsigned*>(part_1 + 0), reinterpret_cast<const unsigned*>(v_26 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 4), reinterpret_cast<const unsigned*>(part + 0), reinterpret_cast<const unsigned*>(v_26 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 12), reinterpret_cast<const unsigned*>(part_2 + 4), reinterpret_cast<const unsigned*>(v_26 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 12), reinterpret_cast<const unsigned*>(part_1 + 4), reinterpret_cast<const unsigned*>(v_26 + 2));
        tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_26 + 12), reinterpret_cast<const unsigned*>(part + 4), reinterpret_cast<const unsigned*>(v_26 + 2));
        ushort v__112 = (ushort)((v_23[0] >> (uint)0) & (uint)65535);
        values_19[0] = ((((float)(*(half_t *)(&(v__112)))) * decay_1) + buffer_26[0]);
        stored_8[0] = ((half_t)min(max(values_19[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__113 = (ushort)((v_23[0] >> (uint)16) & (uint)65535);
        values_19[1] = ((((float)(*(half_t *)(&(v__113)))) * decay_1) + buffer_26[1]);
        stored_8[1] = ((half_t)min(max(values_19[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__114 = stored_8[0];
        half_t v__115 = stored_8[1];
        v_27[0] = (((uint)(*(ushort *)(&(v__114)))) | (((uint)(*(ushort *)(&(v__115)))) << (uint)16));
        ushort v__116 = (ushort)((v_23[2] >> (uint)0) & (uint)65535);
        values_20[0] = ((((float)(*(half_t *)(&(v__116)))) * decay_1) + buffer_26[4]);
        stored_9[0] = ((half_t)min(max(values_20[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__117 = (ushort)((v_23[2] >> (uint)16) & (uint)65535);
        values_20[1] = ((((float)(*(half_t *)(&(v__117)))) * decay_1) + buffer_26[5]);
        stored_9[1] = ((half_t)min(max(values_20[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__118 = stored_9[0];
        half_t v__119 = stored_9[1];
        v_27[2] = (((uint)(*(ushort *)(&(v__118)))) | (((uint)(*(ushort *)(&(v__119)))) << (uint)16));
        ushort v__120 = (ushort)((v_23[1] >> (uint)0) & (uint)65535);
        values_21[0] = ((((float)(*(half_t *)(&(v__120)))) * decay_1) + buffer_26[2]);
        stored_10[0] = ((half_t)min(max(values_21[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__121 = (ushort)((v_23[1] >> (uint)16) & (uint)65535);
        values_21[1] = ((((float)(*(half_t *)(&(v__121)))) * decay_1) + buffer_26[3]);
        stored_10[1] = ((half_t)min(max(values_21[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__122 = stored_10[0];
        half_t v__123 = stored_10[1];
        v_27[1] = (((uint)(*(ushort *)(&(v__122)))) | (((uint)(*(ushort *)(&(v__123)))) << (uint)16));
        ushort v__124 = (ushort)((v_23[3] >> (uint)0) & (uint)65535);
        values_22[0] = ((((float)(*(half_t *)(&(v__124)))) * decay_1) + buffer_26[6]);
        stored_11[0] = ((half_t)min(max(values_22[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__125 = (ushort)((v_23[3] >> (uint)16) & (uint)65535);
        values_22[1] = ((((float)(*(half_t *)(&(v__125)))) * decay_1) + buffer_26[7]);
        stored_11[1] = ((half_t)min(max(values_22[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__126 = stored_11[0];
        half_t v__127 = stored_11[1];
        v_27[3] = (((uint)(*(ushort *)(&(v__126)))) | (((uint)(*(ushort *)(&(v__127)))) << (uint)16));
        ushort v__128 = (ushort)((v_23[4] >> (uint)0) & (uint)65535);
        values_23[0] = ((((float)(*(half_t *)(&(v__128)))) * decay_1) + buffer_26[8]);
        stored_12[0] = ((half_t)min(max(values_23[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__129 = (ushort)((v_23[4] >> (uint)16) & (uint)65535);
        values_23[1] = ((((float)(*(half_t *)(&(v__129)))) * decay_1) + buffer_26[9]);
        stored_12[1] = ((half_t)min(max(values_23[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__130 = stored_12[0];
        half_t v__131 = stored_12[1];
        v_27[4] = (((uint)(*(ushort *)(&(v__130)))) | (((uint)(*(ushort *)(&(v__131)))) << (uint)16));
        ushort v__132 = (ushort)((v_23[6] >> (uint)0) & (uint)65535);
        values_24[0] = ((((float)(*(half_t *)(&(v__132)))) * decay_1) + buffer_26[12]);
        stored_13[0] = ((half_t)min(max(values_24[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__133 = (ushort)((v_23[6] >> (uint)16) & (uint)65535);
        values_24[1] = ((((float)(*(half_t *)(&(v__133)))) * decay_1) + buffer_26[13]);
        stored_13[1] = ((half_t)min(max(values_24[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__134 = stored_13[0];
        half_t v__135 = stored_13[1];
        v_27[6] = (((uint)(*(ushort *)(&(v__134)))) | (((uint)(*(ushort *)(&(v__135)))) << (uint)16));
        ushort v__136 = (ushort)((v_23[5] >> (uint)0) & (uint)65535);
        values_25[0] = ((((float)(*(half_t *)(&(v__136)))) * decay_1) + buffer_26[10]);
        stored_14[0] = ((half_t)min(max(values_25[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__137 = (ushort)((v_23[5] >> (uint)16) & (uint)65535);
        values_25[1] = ((((float)(*(half_t *)(&(v__137)))) * decay_1) + buffer_26[11]);
        stored_14[1] = ((half_t)min(max(values_25[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__138 = stored_14[0];
        half_t v__139 = stored_14[1];
        v_27[5] = (((uint)(*(ushort *)(&(v__138)))) | (((uint)(*(ushort *)(&(v__139)))) << (uint)16));
        ushort v__140 = (ushort)((v_23[7] >> (uint)0) & (uint)65535);
        values_26[0] = ((((float)(*(half_t *)(&(v__140)))) * decay_1) + buffer_26[14]);
        stored_15[0] = ((half_t)min(max(values_26[0], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        ushort v__141 = (ushort)((v_23[7] >> (uint)16) & (uint)65535);
        values_26[1] = ((((float)(*(half_t *)(&(v__141)))) * decay_1) + buffer_26[15]);
        stored_15[1] = ((half_t)min(max(values_26[1], -0x1.ffcp+15f/*-6.550400e+04*/), 0x1.ffcp+15f/*6.550400e+04*/));
        half_t v__142 = stored_15[0];
        half_t v__143 = stored_15[1];
        v_27[7] = (((uint)(*(ushort *)(&(v__142)))) | (((uint)(*(ushort *)(&(v__143)))) << (uint)16));
        tl::ptx_ldmatrix_x2((&(((bfloat16_t*)reads)[((((((int)threadIdx.x) & 7) * 136) + (i_5 * 32)) + (((((int)threadIdx.x) & 15) >> 3) * 8))])), (&(v_28[0])));
        ushort v__144 = (ushort)((v_25[0] >> (uint)0) & (uint)65535);
        float value = ((float)(*(half_t *)(&(v__144))));
        v_29[0] = value;
        ushort v__145 = (ushort)((v_25[1] >> (uint)0) & (uint)65535);
        float value_1 = ((float)(*(half_t *)(&(v__145))));
        v_29[1] = value_1;
        ushort v__146 = (ushort)((v_25[0] >> (uint)16) & (uint)65535);
        float value_2 = ((float)(*(half_t *)(&(v__146))));
        v_29[2] = value_2;
        ushort v__147 = (ushort)((v_25[1] >> (uint)16) & (uint)65535);
        float value_3 = ((float)(*(half_t *)(&(v__147))));
        v_29[3] = value_3;
        uint v__148 = v_28[0] << (uint)16;
        float value_4 = (*(float *)(&(v__148)));
        v_30[0] = value_4;
        uint v__149 = v_28[0] & (uint)4294901760;
        float value_5 = (*(float *)(&(v__149)));
        v_30[1] = value_5;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_29 + 0), reinterpret_cast<const unsigned*>(v_30 + 0));
        ushort v__150 = (ushort)((v_25[2] >> (uint)0) & (uint)65535);
        float value_6 = ((float)(*(half_t *)(&(v__150))));
        v_29[0] = value_6;
        ushort v__151 = (ushort)((v_25[3] >> (uint)0) & (uint)65535);
        float value_7 = ((float)(*(half_t *)(&(v__151))));
        v_29[1] = value_7;
        ushort v__152 = (ushort)((v_25[2] >> (uint)16) & (uint)65535);
        float value_8 = ((float)(*(half_t *)(&(v__152))));
        v_29[2] = value_8;
        ushort v__153 = (ushort)((v_25[3] >> (uint)16) & (uint)65535);
        float value_9 = ((float)(*(half_t *)(&(v__153))));
        v_29[3] = value_9;
        uint v__154 = v_28[1] << (uint)16;
        float value_10 = (*(float *)(&(v__154)));
        v_30[0] = value_10;
        uint v__155 = v_28[1] & (uint)4294901760;
        float value_11 = (*(float *)(&(v__155)));
        v_30[1] = value_11;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_29 + 0), reinterpret_cast<const unsigned*>(v_30 + 0));
        ushort v__156 = (ushort)((v_25[4] >> (uint)0) & (uint)65535);
        float value_12 = ((float)(*(half_t *)(&(v__156))));
        v_31[0] = value_12;
        ushort v__157 = (ushort)((v_25[5] >> (uint)0) & (uint)65535);
        float value_13 = ((float)(*(half_t *)(&(v__157))));
        v_31[1] = value_13;
        ushort v__158 = (ushort)((v_25[4] >> (uint)16) & (uint)65535);
        float value_14 = ((float)(*(half_t *)(&(v__158))));
        v_31[2] = value_14;
        ushort v__159 = (ushort)((v_25[5] >> (uint)16) & (uint)65535);
        float value_15 = ((float)(*(half_t *)(&(v__159))));
        v_31[3] = value_15;
        uint v__160 = v_28[0] << (uint)16;
        float value_16 = (*(float *)(&(v__160)));
        v_32[0] = value_16;
        uint v__161 = v_28[0] & (uint)4294901760;
        float value_17 = (*(float *)(&(v__161)));
        v_32[1] = value_17;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_31 + 0), reinterpret_cast<const unsigned*>(v_32 + 0));
        ushort v__162 = (ushort)((v_25[6] >> (uint)0) & (uint)65535);
        float value_18 = ((float)(*(half_t *)(&(v__162))));
        v_31[0] = value_18;
        ushort v__163 = (ushort)((v_25[7] >> (uint)0) & (uint)65535);
        float value_19 = ((float)(*(half_t *)(&(v__163))));
        v_31[1] = value_19;
        ushort v__164 = (ushort)((v_25[6] >> (uint)16) & (uint)65535);
        float value_20 = ((float)(*(half_t *)(&(v__164))));
        v_31[2] = value_20;
        ushort v__165 = (ushort)((v_25[7] >> (uint)16) & (uint)65535);
        float value_21 = ((float)(*(half_t *)(&(v__165))));
        v_31[3] = value_21;
        uint v__166 = v_28[1] << (uint)16;
        float value_22 = (*(float *)(&(v__166)));
        v_32[0] = value_22;
        uint v__167 = v_28[1] & (uint)4294901760;
        float value_23 = (*(float *)(&(v__167)));
        v_32[1] = value_23;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_31 + 0), reinterpret_cast<const unsigned*>(v_32 + 0));
        tl::ptx_ldmatrix_x2((&(((bfloat16_t*)reads)[(((((((int)threadIdx.x) & 7) * 136) + (i_5 * 32)) + (((((int)threadIdx.x) & 15) >> 3) * 8)) + 16)])), (&(v_33[0])));
        ushort v__168 = (ushort)((v_27[0] >> (uint)0) & (uint)65535);
        float value_24 = ((float)(*(half_t *)(&(v__168))));
        v_34[0] = value_24;
        ushort v__169 = (ushort)((v_27[1] >> (uint)0) & (uint)65535);
        float value_25 = ((float)(*(half_t *)(&(v__169))));
        v_34[1] = value_25;
        ushort v__170 = (ushort)((v_27[0] >> (uint)16) & (uint)65535);
        float value_26 = ((float)(*(half_t *)(&(v__170))));
        v_34[2] = value_26;
        ushort v__171 = (ushort)((v_27[1] >> (uint)16) & (uint)65535);
        float value_27 = ((float)(*(half_t *)(&(v__171))));
        v_34[3] = value_27;
        uint v__172 = v_33[0] << (uint)16;
        float value_28 = (*(float *)(&(v__172)));
        v_35[0] = value_28;
        uint v__173 = v_33[0] & (uint)4294901760;
        float value_29 = (*(float *)(&(v__173)));
        v_35[1] = value_29;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_34 + 0), reinterpret_cast<const unsigned*>(v_35 + 0));
        ushort v__174 = (ushort)((v_27[2] >> (uint)0) & (uint)65535);
        float value_30 = ((float)(*(half_t *)(&(v__174))));
        v_34[0] = value_30;
        ushort v__175 = (ushort)((v_27[3] >> (uint)0) & (uint)65535);
        float value_31 = ((float)(*(half_t *)(&(v__175))));
        v_34[1] = value_31;
        ushort v__176 = (ushort)((v_27[2] >> (uint)16) & (uint)65535);
        float value_32 = ((float)(*(half_t *)(&(v__176))));
        v_34[2] = value_32;
        ushort v__177 = (ushort)((v_27[3] >> (uint)16) & (uint)65535);
        float value_33 = ((float)(*(half_t *)(&(v__177))));
        v_34[3] = value_33;
        uint v__178 = v_33[1] << (uint)16;
        float value_34 = (*(float *)(&(v__178)));
        v_35[0] = value_34;
        uint v__179 = v_33[1] & (uint)4294901760;
        float value_35 = (*(float *)(&(v__179)));
        v_35[1] = value_35;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_34 + 0), reinterpret_cast<const unsigned*>(v_35 + 0));
        ushort v__180 = (ushort)((v_27[4] >> (uint)0) & (uint)65535);
        float value_36 = ((float)(*(half_t *)(&(v__180))));
        v_36[0] = value_36;
        ushort v__181 = (ushort)((v_27[5] >> (uint)0) & (uint)65535);
        float value_37 = ((float)(*(half_t *)(&(v__181))));
        v_36[1] = value_37;
        ushort v__182 = (ushort)((v_27[4] >> (uint)16) & (uint)65535);
        float value_38 = ((float)(*(half_t *)(&(v__182))));
        v_36[2] = value_38;
        ushort v__183 = (ushort)((v_27[5] >> (uint)16) & (uint)65535);
        float value_39 = ((float)(*(half_t *)(&(v__183))));
        v_36[3] = value_39;
        uint v__184 = v_33[0] << (uint)16;
        float value_40 = (*(float *)(&(v__184)));
        v_37[0] = value_40;
        uint v__185 = v_33[0] & (uint)4294901760;
        float value_41 = (*(float *)(&(v__185)));
        v_37[1] = value_41;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_36 + 0), reinterpret_cast<const unsigned*>(v_37 + 0));
        ushort v__186 = (ushort)((v_27[6] >> (uint)0) & (uint)65535);
        float value_42 = ((float)(*(half_t *)(&(v__186))));
        v_36[0] = value_42;
        ushort v__187 = (ushort)((v_27[7] >> (uint)0) & (uint)65535);
        float value_43 = ((float)(*(half_t *)(&(v__187))));
        v_36[1] = value_43;
        ushort v__188 = (ushort)((v_27[6] >> (uint)16) & (uint)65535);
        float value_44 = ((float)(*(half_t *)(&(v__188))));
        v_36[2] = value_44;
        ushort v__189 = (ushort)((v_27[7] >> (uint)16) & (uint)65535);
        float value_45 = ((float)(*(half_t *)(&(v__189))));
        v_36[3] = value_45;
        uint v__190 = v_33[1] << (uint)16;
        float value_46 = (*(float *)(&(v__190)));
        v_37[0] = value_46;
        uint v__191 = v_33[1] & (uint)4294901760;
        float value_47 = (*(float *)(&(v__191)));
        v_37[1] = value_47;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_36 + 0), reinterpret_cast<const unsigned*>(v_37 + 0));
        ushort half = ((ushort)((v_25[0] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp = half;
        ((half_t*)state_1)[(((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2))] = (*(half_t *)(&(_reinterpret_tmp)));
        ushort half_1 = ((ushort)((v_25[0] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_1 = half_1;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 1)] = (*(half_t *)(&(_reinterpret_tmp_1)));
        ushort half_2 = ((ushort)((v_25[2] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_2 = half_2;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 8)] = (*(half_t *)(&(_reinterpret_tmp_2)));
        ushort half_3 = ((ushort)((v_25[2] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_3 = half_3;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 9)] = (*(half_t *)(&(_reinterpret_tmp_3)));
        ushort half_4 = ((ushort)((v_25[1] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_4 = half_4;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 136)] = (*(half_t *)(&(_reinterpret_tmp_4)));
        ushort half_5 = ((ushort)((v_25[1] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_5 = half_5;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 137)] = (*(half_t *)(&(_reinterpret_tmp_5)));
        ushort half_6 = ((ushort)((v_25[3] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_6 = half_6;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 144)] = (*(half_t *)(&(_reinterpret_tmp_6)));
        ushort half_7 = ((ushort)((v_25[3] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_7 = half_7;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 145)] = (*(half_t *)(&(_reinterpret_tmp_7)));
        ushort half_8 = ((ushort)((v_25[4] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_8 = half_8;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2176)] = (*(half_t *)(&(_reinterpret_tmp_8)));
        ushort half_9 = ((ushort)((v_25[4] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_9 = half_9;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2177)] = (*(half_t *)(&(_reinterpret_tmp_9)));
        ushort half_10 = ((ushort)((v_25[6] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_10 = half_10;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2184)] = (*(half_t *)(&(_reinterpret_tmp_10)));
        ushort half_11 = ((ushort)((v_25[6] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_11 = half_11;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2185)] = (*(half_t *)(&(_reinterpret_tmp_11)));
        ushort half_12 = ((ushort)((v_25[5] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_12 = half_12;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2312)] = (*(half_t *)(&(_reinterpret_tmp_12)));
        ushort half_13 = ((ushort)((v_25[5] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_13 = half_13;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2313)] = (*(half_t *)(&(_reinterpret_tmp_13)));
        ushort half_14 = ((ushort)((v_25[7] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_14 = half_14;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2320)] = (*(half_t *)(&(_reinterpret_tmp_14)));
        ushort half_15 = ((ushort)((v_25[7] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_15 = half_15;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2321)] = (*(half_t *)(&(_reinterpret_tmp_15)));
        ushort half_16 = ((ushort)((v_27[0] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_16 = half_16;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 16)] = (*(half_t *)(&(_reinterpret_tmp_16)));
        ushort half_17 = ((ushort)((v_27[0] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_17 = half_17;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 17)] = (*(half_t *)(&(_reinterpret_tmp_17)));
        ushort half_18 = ((ushort)((v_27[2] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_18 = half_18;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 24)] = (*(half_t *)(&(_reinterpret_tmp_18)));
        ushort half_19 = ((ushort)((v_27[2] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_19 = half_19;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 25)] = (*(half_t *)(&(_reinterpret_tmp_19)));
        ushort half_20 = ((ushort)((v_27[1] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_20 = half_20;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 152)] = (*(half_t *)(&(_reinterpret_tmp_20)));
        ushort half_21 = ((ushort)((v_27[1] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_21 = half_21;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 153)] = (*(half_t *)(&(_reinterpret_tmp_21)));
        ushort half_22 = ((ushort)((v_27[3] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_22 = half_22;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 160)] = (*(half_t *)(&(_reinterpret_tmp_22)));
        ushort half_23 = ((ushort)((v_27[3] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_23 = half_23;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 161)] = (*(half_t *)(&(_reinterpret_tmp_23)));
        ushort half_24 = ((ushort)((v_27[4] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_24 = half_24;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2192)] = (*(half_t *)(&(_reinterpret_tmp_24)));
        ushort half_25 = ((ushort)((v_27[4] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_25 = half_25;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2193)] = (*(half_t *)(&(_reinterpret_tmp_25)));
        ushort half_26 = ((ushort)((v_27[6] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_26 = half_26;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2200)] = (*(half_t *)(&(_reinterpret_tmp_26)));
        ushort half_27 = ((ushort)((v_27[6] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_27 = half_27;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2201)] = (*(half_t *)(&(_reinterpret_tmp_27)));
        ushort half_28 = ((ushort)((v_27[5] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_28 = half_28;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2328)] = (*(half_t *)(&(_reinterpret_tmp_28)));
        ushort half_29 = ((ushort)((v_27[5] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_29 = half_29;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2329)] = (*(half_t *)(&(_reinterpret_tmp_29)));
        ushort half_30 = ((ushort)((v_27[7] >> (uint)0) & (uint)65535));
        ushort _reinterpret_tmp_30 = half_30;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2336)] = (*(half_t *)(&(_reinterpret_tmp_30)));
        ushort half_31 = ((ushort)((v_27[7] >> (uint)16) & (uint)65535));
        ushort _reinterpret_tmp_31 = half_31;
        ((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 2) * 272)) + (i_5 * 32)) + ((((int)threadIdx.x) & 3) * 2)) + 2337)] = (*(half_t *)(&(_reinterpret_tmp_31)));
      }
      __syncwarp();
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + ((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + ((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 2) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 272));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 4) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 544));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 6) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 816));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 8) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1088));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 10) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1360));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 12) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1632));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 14) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1904));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 16) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2176));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 18) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2448));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 20) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2720));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 22) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2992));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 24) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3264));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 26) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3536));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 28) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3808));
      *(uint4*)(state + (int64_t(((((((int)threadIdx.x) & 15) * 8) + ((((int)blockIdx.x) % HV) * ((int)state_s1))) + (((((((int)threadIdx.x) >> 5) * 32) + ((((int)threadIdx.x) & 31) >> 4)) + 30) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 4080));
    } else {
      if (0 < count) {
        v_6[0] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[0] : 0x0p+0f/*0.000000e+00*/);
        v_6[1] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[1] : 0x0p+0f/*0.000000e+00*/);
        v_6[8] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[8] : 0x0p+0f/*0.000000e+00*/);
        v_6[9] = ((((((int)threadIdx.x) & 3) * 2) < count) ? v_6[9] : 0x0p+0f/*0.000000e+00*/);
        v_6[2] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[2] : 0x0p+0f/*0.000000e+00*/);
        v_6[3] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[3] : 0x0p+0f/*0.000000e+00*/);
        v_6[10] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[10] : 0x0p+0f/*0.000000e+00*/);
        v_6[11] = (((((((int)threadIdx.x) & 3) * 2) + 1) < count) ? v_6[11] : 0x0p+0f/*0.000000e+00*/);
        v_6[4] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[4] : 0x0p+0f/*0.000000e+00*/);
        v_6[5] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[5] : 0x0p+0f/*0.000000e+00*/);
        v_6[12] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[12] : 0x0p+0f/*0.000000e+00*/);
        v_6[13] = (((((((int)threadIdx.x) & 3) * 2) + 8) < count) ? v_6[13] : 0x0p+0f/*0.000000e+00*/);
        v_6[6] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[6] : 0x0p+0f/*0.000000e+00*/);
        v_6[7] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[7] : 0x0p+0f/*0.000000e+00*/);
        v_6[14] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[14] : 0x0p+0f/*0.000000e+00*/);
        v_6[15] = (((((((int)threadIdx.x) & 3) * 2) + 9) < count) ? v_6[15] : 0x0p+0f/*0.000000e+00*/);
        #pragma unroll
        for (int i_8 = 0; i_8 < 8; ++i_8) {
          buffer_23[i_8] = 0x0p+0f/*0.000000e+00*/;
        }
        #pragma unroll
        for (int i_9 = 0; i_9 < 8; ++i_9) {
          buffer_27[i_9] = 0x0p+0f/*0.000000e+00*/;
        }
        #pragma unroll
        for (int c_10 = 0; c_10 < 4; ++c_10) {
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)keys)[((((((int)threadIdx.x) & 7) * 136) + (c_10 * 32)) + (((((int)threadIdx.x) & 31) >> 3) * 8))])), (&(v_38[0])));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)keys)[(((((((int)threadIdx.x) & 7) * 136) + (c_10 * 32)) + (((((int)threadIdx.x) & 31) >> 3) * 8)) + 1088)])), (&(v_39[0])));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[(((min((((int)threadIdx.x) & 15), 7) * 136) + (c_10 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_40[0])));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 0), reinterpret_cast<const unsigned*>(v_40 + 0), reinterpret_cast<const unsigned*>(v_38 + 0));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 4), reinterpret_cast<const unsigned*>(v_40 + 0), reinterpret_cast<const unsigned*>(v_39 + 0));
          tl::ptx_ldmatrix_x4((&(((bfloat16_t*)reads)[((((min((((int)threadIdx.x) & 15), 7) * 136) + (c_10 * 32)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 16)])), (&(v_41[0])));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 0), reinterpret_cast<const unsigned*>(v_41 + 0), reinterpret_cast<const unsigned*>(v_38 + 2));
          tl::mma_sync<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(buffer_23 + 4), reinterpret_cast<const unsigned*>(v_41 + 0), reinterpret_cast<const unsigned*>(v_39 + 2));
        }
        float value_48 = (buffer_23[0] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
        float _reinterpret_tmp_32 = value_48;
        uint v__192 = (*(uint *)(&(_reinterpret_tmp_32))) & (uint)4294959104;
        v_9[0] = (*(float *)(&(v__192)));
        v_10[0] = (value_48 - v_9[0]);
        float value_49 = (buffer_23[1] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
        float _reinterpret_tmp_33 = value_49;
        uint v__193 = (*(uint *)(&(_reinterpret_tmp_33))) & (uint)4294959104;
        v_9[1] = (*(float *)(&(v__193)));
        v_10[1] = (value_49 - v_9[1]);
        float value_50 = (buffer_23[2] * ((float*)weights)[((((int)threadIdx.x) & 3) * 2)]);
        float _reinterpret_tmp_34 = value_50;
        uint v__194 = (*(uint *)(&(_reinterpret_tmp_34))) & (uint)4294959104;
        v_9[2] = (*(float *)(&(v__194)));
        v_10[2] = (value_50 - v_9[2]);
        float value_51 = (buffer_23[3] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 1)]);
        float _reinterpret_tmp_35 = value_51;
        uint v__195 = (*(uint *)(&(_reinterpret_tmp_35))) & (uint)4294959104;
        v_9[3] = (*(float *)(&(v__195)));
        v_10[3] = (value_51 - v_9[3]);
        float value_52 = v_6[0];
        float _reinterpret_tmp_36 = value_52;
        uint v__196 = (*(uint *)(&(_reinterpret_tmp_36))) & (uint)4294959104;
        v_11[0] = (*(float *)(&(v__196)));
        v_12[0] = (value_52 - v_11[0]);
        float value_53 = v_6[2];
        float _reinterpret_tmp_37 = value_53;
        uint v__197 = (*(uint *)(&(_reinterpret_tmp_37))) & (uint)4294959104;
        v_11[2] = (*(float *)(&(v__197)));
        v_12[2] = (value_53 - v_11[2]);
        float value_54 = v_6[1];
        float _reinterpret_tmp_38 = value_54;
        uint v__198 = (*(uint *)(&(_reinterpret_tmp_38))) & (uint)4294959104;
        v_11[1] = (*(float *)(&(v__198)));
        v_12[1] = (value_54 - v_11[1]);
        float value_55 = v_6[3];
        float _reinterpret_tmp_39 = value_55;
        uint v__199 = (*(uint *)(&(_reinterpret_tmp_39))) & (uint)4294959104;
        v_11[3] = (*(float *)(&(v__199)));
        v_12[3] = (value_55 - v_11[3]);
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_11 + 0), reinterpret_cast<const unsigned*>(v_9 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_12 + 0), reinterpret_cast<const unsigned*>(v_9 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_11 + 0), reinterpret_cast<const unsigned*>(v_10 + 0));
        float value_56 = v_6[8];
        float _reinterpret_tmp_40 = value_56;
        uint v__200 = (*(uint *)(&(_reinterpret_tmp_40))) & (uint)4294959104;
        v_11[4] = (*(float *)(&(v__200)));
        v_12[4] = (value_56 - v_11[4]);
        float value_57 = v_6[10];
        float _reinterpret_tmp_41 = value_57;
        uint v__201 = (*(uint *)(&(_reinterpret_tmp_41))) & (uint)4294959104;
        v_11[6] = (*(float *)(&(v__201)));
        v_12[6] = (value_57 - v_11[6]);
        float value_58 = v_6[9];
        float _reinterpret_tmp_42 = value_58;
        uint v__202 = (*(uint *)(&(_reinterpret_tmp_42))) & (uint)4294959104;
        v_11[5] = (*(float *)(&(v__202)));
        v_12[5] = (value_58 - v_11[5]);
        float value_59 = v_6[11];
        float _reinterpret_tmp_43 = value_59;
        uint v__203 = (*(uint *)(&(_reinterpret_tmp_43))) & (uint)4294959104;
        v_11[7] = (*(float *)(&(v__203)));
        v_12[7] = (value_59 - v_11[7]);
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_11 + 4), reinterpret_cast<const unsigned*>(v_9 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_12 + 4), reinterpret_cast<const unsigned*>(v_9 + 0));
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_11 + 4), reinterpret_cast<const unsigned*>(v_10 + 0));
        if (8 < count) {
          float v__204 = buffer_23[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)];
          uint v__205 = (*(uint *)(&(v__204))) & (uint)4294959104;
          v_13[0] = (*(float *)(&(v__205)));
          v_14[0] = ((buffer_23[4] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]) - v_13[0]);
          float v__206 = buffer_23[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)];
          uint v__207 = (*(uint *)(&(v__206))) & (uint)4294959104;
          v_13[1] = (*(float *)(&(v__207)));
          v_14[1] = ((buffer_23[5] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]) - v_13[1]);
          float v__208 = buffer_23[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)];
          uint v__209 = (*(uint *)(&(v__208))) & (uint)4294959104;
          v_13[2] = (*(float *)(&(v__209)));
          v_14[2] = ((buffer_23[6] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 8)]) - v_13[2]);
          float v__210 = buffer_23[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)];
          uint v__211 = (*(uint *)(&(v__210))) & (uint)4294959104;
          v_13[3] = (*(float *)(&(v__211)));
          v_14[3] = ((buffer_23[7] * ((float*)weights)[(((((int)threadIdx.x) & 3) * 2) + 9)]) - v_13[3]);
          float v__212 = v_6[4];
          uint v__213 = (*(uint *)(&(v__212))) & (uint)4294959104;
          v_15[0] = (*(float *)(&(v__213)));
          v_16[0] = (v_6[4] - v_15[0]);
          float v__214 = v_6[6];
          uint v__215 = (*(uint *)(&(v__214))) & (uint)4294959104;
          v_15[2] = (*(float *)(&(v__215)));
          v_16[2] = (v_6[6] - v_15[2]);
          float v__216 = v_6[5];
          uint v__217 = (*(uint *)(&(v__216))) & (uint)4294959104;
          v_15[1] = (*(float *)(&(v__217)));
          v_16[1] = (v_6[5] - v_15[1]);
          float v__218 = v_6[7];
          uint v__219 = (*(uint *)(&(v__218))) & (uint)4294959104;
          v_15[3] = (*(float *)(&(v__219)));
          v_16[3] = (v_6[7] - v_15[3]);
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_15 + 0), reinterpret_cast<const unsigned*>(v_13 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_16 + 0), reinterpret_cast<const unsigned*>(v_13 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 0), reinterpret_cast<const unsigned*>(v_15 + 0), reinterpret_cast<const unsigned*>(v_14 + 0));
          float v__220 = v_6[12];
          uint v__221 = (*(uint *)(&(v__220))) & (uint)4294959104;
          v_15[4] = (*(float *)(&(v__221)));
          v_16[4] = (v_6[12] - v_15[4]);
          float v__222 = v_6[14];
          uint v__223 = (*(uint *)(&(v__222))) & (uint)4294959104;
          v_15[6] = (*(float *)(&(v__223)));
          v_16[6] = (v_6[14] - v_15[6]);
          float v__224 = v_6[13];
          uint v__225 = (*(uint *)(&(v__224))) & (uint)4294959104;
          v_15[5] = (*(float *)(&(v__225)));
          v_16[5] = (v_6[13] - v_15[5]);
          float v__226 = v_6[15];
          uint v__227 = (*(uint *)(&(v__226))) & (uint)4294959104;
          v_15[7] = (*(float *)(&(v__227)));
          v_16[7] = (v_6[15] - v_15[7]);
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_15 + 4), reinterpret_cast<const unsigned*>(v_13 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_16 + 4), reinterpret_cast<const unsigned*>(v_13 + 0));
          tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_20 + 4), reinterpret_cast<const unsigned*>(v_15 + 4), reinterpret_cast<const unsigned*>(v_14 + 0));
        }
      }
      tl::cp_async_wait<0>();
      if (kv_only != 0) {
        #pragma unroll
        for (int e_1 = 0; e_1 < 8; ++e_1) {
          zeros_1[e_1] = half_t(0x0p+0f/*0.000000e+00*/);
        }
        *(uint4*)(((half_t*)state_1) + ((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8))) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 272)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 544)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 816)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1088)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1360)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1632)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 1904)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2176)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2448)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2720)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 2992)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3264)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3536)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 3808)) = *(uint4*)(zeros_1 + 0);
        *(uint4*)(((half_t*)state_1) + (((((((int)threadIdx.x) >> 5) * 4352) + (((((int)threadIdx.x) & 31) >> 4) * 136)) + ((((int)threadIdx.x) & 15) * 8)) + 4080)) = *(uint4*)(zeros_1 + 0);
      }
      __syncwarp();
      #pragma unroll
      for (int c_11 = 0; c_11 < 8; ++c_11) {
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (c_11 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), (&(v_42[0])));
        tl::ptx_ldmatrix_x4((&(((half_t*)state_1)[(((((((((int)threadIdx.x) >> 5) * 4352) + ((((int)threadIdx.x) & 7) * 272)) + (((((int)threadIdx.x) & 15) >> 3) * 136)) + (c_11 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8)) + 2176)])), (&(v_42[4])));
        tl::ptx_ldmatrix_x2((&(((bfloat16_t*)reads)[((((((int)threadIdx.x) & 7) * 136) + (c_11 * 16)) + (((((int)threadIdx.x) & 15) >> 3) * 8))])), (&(v_43[0])));
        ushort v__228 = (ushort)((v_42[0] >> (uint)0) & (uint)65535);
        float value_60 = ((float)(*(half_t *)(&(v__228))));
        v_44[0] = value_60;
        ushort v__229 = (ushort)((v_42[1] >> (uint)0) & (uint)65535);
        float value_61 = ((float)(*(half_t *)(&(v__229))));
        v_44[1] = value_61;
        ushort v__230 = (ushort)((v_42[0] >> (uint)16) & (uint)65535);
        float value_62 = ((float)(*(half_t *)(&(v__230))));
        v_44[2] = value_62;
        ushort v__231 = (ushort)((v_42[1] >> (uint)16) & (uint)65535);
        float value_63 = ((float)(*(half_t *)(&(v__231))));
        v_44[3] = value_63;
        uint v__232 = v_43[0] << (uint)16;
        float value_64 = (*(float *)(&(v__232)));
        v_45[0] = value_64;
        uint v__233 = v_43[0] & (uint)4294901760;
        float value_65 = (*(float *)(&(v__233)));
        v_45[1] = value_65;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_44 + 0), reinterpret_cast<const unsigned*>(v_45 + 0));
        ushort v__234 = (ushort)((v_42[2] >> (uint)0) & (uint)65535);
        float value_66 = ((float)(*(half_t *)(&(v__234))));
        v_44[0] = value_66;
        ushort v__235 = (ushort)((v_42[3] >> (uint)0) & (uint)65535);
        float value_67 = ((float)(*(half_t *)(&(v__235))));
        v_44[1] = value_67;
        ushort v__236 = (ushort)((v_42[2] >> (uint)16) & (uint)65535);
        float value_68 = ((float)(*(half_t *)(&(v__236))));
        v_44[2] = value_68;
        ushort v__237 = (ushort)((v_42[3] >> (uint)16) & (uint)65535);
        float value_69 = ((float)(*(half_t *)(&(v__237))));
        v_44[3] = value_69;
        uint v__238 = v_43[1] << (uint)16;
        float value_70 = (*(float *)(&(v__238)));
        v_45[0] = value_70;
        uint v__239 = v_43[1] & (uint)4294901760;
        float value_71 = (*(float *)(&(v__239)));
        v_45[1] = value_71;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 0), reinterpret_cast<const unsigned*>(v_44 + 0), reinterpret_cast<const unsigned*>(v_45 + 0));
        ushort v__240 = (ushort)((v_42[4] >> (uint)0) & (uint)65535);
        float value_72 = ((float)(*(half_t *)(&(v__240))));
        v_46[0] = value_72;
        ushort v__241 = (ushort)((v_42[5] >> (uint)0) & (uint)65535);
        float value_73 = ((float)(*(half_t *)(&(v__241))));
        v_46[1] = value_73;
        ushort v__242 = (ushort)((v_42[4] >> (uint)16) & (uint)65535);
        float value_74 = ((float)(*(half_t *)(&(v__242))));
        v_46[2] = value_74;
        ushort v__243 = (ushort)((v_42[5] >> (uint)16) & (uint)65535);
        float value_75 = ((float)(*(half_t *)(&(v__243))));
        v_46[3] = value_75;
        float value_76 = (*(float *)(&(v__232)));
        v_47[0] = value_76;
        float value_77 = (*(float *)(&(v__233)));
        v_47[1] = value_77;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_46 + 0), reinterpret_cast<const unsigned*>(v_47 + 0));
        ushort v__244 = (ushort)((v_42[6] >> (uint)0) & (uint)65535);
        float value_78 = ((float)(*(half_t *)(&(v__244))));
        v_46[0] = value_78;
        ushort v__245 = (ushort)((v_42[7] >> (uint)0) & (uint)65535);
        float value_79 = ((float)(*(half_t *)(&(v__245))));
        v_46[1] = value_79;
        ushort v__246 = (ushort)((v_42[6] >> (uint)16) & (uint)65535);
        float value_80 = ((float)(*(half_t *)(&(v__246))));
        v_46[2] = value_80;
        ushort v__247 = (ushort)((v_42[7] >> (uint)16) & (uint)65535);
        float value_81 = ((float)(*(half_t *)(&(v__247))));
        v_46[3] = value_81;
        float value_82 = (*(float *)(&(v__238)));
        v_47[0] = value_82;
        float value_83 = (*(float *)(&(v__239)));
        v_47[1] = value_83;
        tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8, false, true>(reinterpret_cast<float*>(buffer_21 + 4), reinterpret_cast<const unsigned*>(v_46 + 0), reinterpret_cast<const unsigned*>(v_47 + 0));
      }
      #pragma unroll
      for (int i_10 = 0; i_10 < 8; ++i_10) {
        buffer_21[i_10] = ((buffer_21[i_10] + buffer_22[i_10]) * decay[0]);
        buffer_22[i_10] = buffer_20[i_10];
      }
    }
    pair[0] = (buffer_21[0] + buffer_22[0]);
    pair[1] = (buffer_21[2] + buffer_22[2]);
    *(float2*)(((float*)v_1) + ((((((int)threadIdx.x) & 3) * 264) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2))) = *(float2*)(pair + 0);
    pair_1[0] = (buffer_21[1] + buffer_22[1]);
    pair_1[1] = (buffer_21[3] + buffer_22[3]);
    *(float2*)(((float*)v_1) + (((((((int)threadIdx.x) & 3) * 264) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 132)) = *(float2*)(pair_1 + 0);
    pair_2[0] = (buffer_21[4] + buffer_22[4]);
    pair_2[1] = (buffer_21[6] + buffer_22[6]);
    *(float2*)(((float*)v_1) + (((((((int)threadIdx.x) & 3) * 264) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 16)) = *(float2*)(pair_2 + 0);
    pair_3[0] = (buffer_21[5] + buffer_22[5]);
    pair_3[1] = (buffer_21[7] + buffer_22[7]);
    *(float2*)(((float*)v_1) + (((((((int)threadIdx.x) & 3) * 264) + ((((int)threadIdx.x) >> 5) * 32)) + (((((int)threadIdx.x) & 31) >> 2) * 2)) + 148)) = *(float2*)(pair_3 + 0);
    __syncthreads();
    float value_84 = ((float*)v_1)[((int)threadIdx.x)];
    read[0] = value_84;
    float value_85 = ((float*)v_1)[(((int)threadIdx.x) + 132)];
    read_1[0] = value_85;
    float value_86 = ((float*)v_1)[(((int)threadIdx.x) + 264)];
    read[1] = value_86;
    float value_87 = ((float*)v_1)[(((int)threadIdx.x) + 396)];
    read_1[1] = value_87;
    float value_88 = ((float*)v_1)[(((int)threadIdx.x) + 528)];
    read[2] = value_88;
    float value_89 = ((float*)v_1)[(((int)threadIdx.x) + 660)];
    read_1[2] = value_89;
    float value_90 = ((float*)v_1)[(((int)threadIdx.x) + 792)];
    read[3] = value_90;
    float value_91 = ((float*)v_1)[(((int)threadIdx.x) + 924)];
    read_1[3] = value_91;
    v_17[0] = 0x1p+0f/*1.000000e+00*/;
    #pragma unroll
    for (int t_1 = 0; t_1 < 4; ++t_1) {
      read[t_1] = (read[t_1] * v_17[0]);
      #pragma unroll
      for (int earlier = 0; earlier < 3; ++earlier) {
        if (earlier < t_1) {
          read[t_1] = (read[t_1] + (((float*)v_3)[((earlier * 8) + (t_1 * 2))] * v_48[earlier]));
        }
      }
      read[t_1] = (read[t_1] * ((float*)v_2)[((t_1 * 12) + 4)]);
      read_1[t_1] = (read_1[t_1] * v_17[0]);
      #pragma unroll
      for (int earlier_1 = 0; earlier_1 < 3; ++earlier_1) {
        if (earlier_1 < t_1) {
          read_1[t_1] = (read_1[t_1] + (((float*)v_3)[(((earlier_1 * 8) + (t_1 * 2)) + 1)] * v_48[earlier_1]));
        }
      }
      read_1[t_1] = (read_1[t_1] * (((float*)v_2)[((t_1 * 12) + 6)] * ((float*)v_2)[((t_1 * 12) + 7)]));
      v_49[t_1] = (((float*)v_2)[((t_1 * 12) + 8)] * (((float)buffer_6[t_1]) - (((float*)v_2)[((t_1 * 12) + 9)] * read[t_1])));
      v_48[t_1] = v_49[t_1];
      v_50[0] = 0x1p+0f/*1.000000e+00*/;
      v_50[0] = (v_50[0] * ((float*)v_2)[((t_1 * 12) + 11)]);
      v_17[0] = (v_17[0] * v_50[0]);
      #pragma unroll
      for (int earlier_2 = 0; earlier_2 < 3; ++earlier_2) {
        if (earlier_2 < t_1) {
          v_48[earlier_2] = (v_48[earlier_2] * v_50[0]);
        }
      }
      v_48[t_1] = (v_48[t_1] * ((float*)v_2)[((t_1 * 12) + 4)]);
      float result = ((((float*)v_2)[((t_1 * 12) + 9)] * read_1[t_1]) + (v_49[t_1] * ((float*)v_2)[((t_1 * 12) + 10)]));
      out[int64_t((((((((int)blockIdx.x) / HV) * ((int)out_s0)) + (t_1 * ((int)out_s1))) + ((((int)blockIdx.x) % HV) * ((int)out_s2))) + ((int)threadIdx.x)))] = ((bfloat16_t)((t_1 < length) ? result : 0x0p+0f/*0.000000e+00*/));
      if (t_1 < length) {
        record_left0[((int64_t((((((int)blockIdx.x) % HV) * ((int)record_left0_s2)) + ((int)threadIdx.x))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)((base + count) + t_1)), ((uint)(((base + count) + t_1) - R)))) * int64_t(((uint)record_left0_s1))))] = v_49[t_1];
      }
    }
    if ((((int)threadIdx.x) >> 4) < length) {
      buffer_7[0] = ((float*)v_2)[((((int)threadIdx.x) >> 4) * 12)];
      buffer_8[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 1)];
      buffer_9[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 2)];
      buffer_13[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 3)];
      buffer_16[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 4)];
      buffer_14[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 5)];
      buffer_17[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 6)];
      buffer_10[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 7)];
      buffer_11[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 8)];
      buffer_12[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 9)];
      buffer_18[0] = ((float*)v_2)[(((((int)threadIdx.x) >> 4) * 12) + 10)];
      if (((((int)blockIdx.x) % HV) % 2) == 0) {
        #pragma unroll
        for (int c_12 = 0; c_12 < 8; ++c_12) {
          values_10[c_12] = ((bfloat16_t)((float)buffer_3[c_12]));
        }
        *(uint4*)(record_k + ((int64_t((((((int)threadIdx.x) & 15) * 8) + (((((int)blockIdx.x) % HV) / 2) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(((((int)threadIdx.x) >> 4) + base) + count)), ((uint)((((((int)threadIdx.x) >> 4) + base) + count) - R)))) * int64_t(((uint)record_k_s1))))) = *(uint4*)(values_10 + 0);
        if ((((int)threadIdx.x) % 16) == 0) {
          record_scale0[((int64_t((((((int)blockIdx.x) % HV) / 2) * ((int)record_scale0_s2))) + (((int64_t)ring) * record_scale0_s0)) + (int64_t(min(((uint)(((((int)threadIdx.x) >> 4) + base) + count)), ((uint)((((((int)threadIdx.x) >> 4) + base) + count) - R)))) * int64_t(((uint)record_scale0_s1))))] = buffer_16[0];
        }
      }
      if ((((int)threadIdx.x) % 16) == 0) {
        record_log_decay[((int64_t(((((int)blockIdx.x) % HV) * ((int)record_log_decay_s2))) + (((int64_t)ring) * record_log_decay_s0)) + (int64_t(min(((uint)(((((int)threadIdx.x) >> 4) + base) + count)), ((uint)((((((int)threadIdx.x) >> 4) + base) + count) - R)))) * int64_t(((uint)record_log_decay_s1))))] = buffer_9[0];
      }
    }
  } else {
    for (int t_2 = 0; t_2 < 4; ++t_2) {
      out[int64_t((((((((int)blockIdx.x) / HV) * ((int)out_s0)) + (t_2 * ((int)out_s1))) + ((((int)blockIdx.x) % HV) * ((int)out_s2))) + ((int)threadIdx.x)))] = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    }
    if (((((int)blockIdx.x) % HV) == 0) && (((int)threadIdx.x) == 0)) {
      if (((((slots_words == 1) ? (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t(((((((int)blockIdx.x) / HV) * ((int)slots_s0)) + slots_words) - 1))]) == 0) && (0 <= slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))])) && (slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))] < P)) {
        if (((((rings_words == 1) ? (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t(((((((int)blockIdx.x) / HV) * ((int)rings_s0)) + rings_words) - 1))]) == 0) && (0 <= rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))])) && (rings[int64_t(((((int)blockIdx.x) / HV) * ((int)rings_s0)))] < N)) {
          cursors[int64_t(((((int)cursors_s0) * 3) + slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))]))] = 0;
          int length_1 = lengths[int64_t(((((int)blockIdx.x) / HV) * ((int)lengths_s0)))];
          int rest = ((lengths_words == 1) ? (lengths[int64_t(((((int)blockIdx.x) / HV) * ((int)lengths_s0)))] >> 31) : lengths[int64_t(((((((int)blockIdx.x) / HV) * ((int)lengths_s0)) + lengths_words) - 1))]);
          if (((rest != 0) || (length_1 < 0)) || (5 <= length_1)) {
            cursors[int64_t(((((int)cursors_s0) * 4) + slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))]))] = (cursors[int64_t(((((int)cursors_s0) * 4) + slots[int64_t(((((int)blockIdx.x) / HV) * ((int)slots_s0)))]))] | 2);
          }
        } else {
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

