#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/copy.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void kvb_decode_lightning_87ce7e94(const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t k_s0, int64_t k_s1, int64_t q_s0, int64_t q_s1, int64_t v_s0, int64_t v_s1, const float* __restrict__ slope, int64_t slope_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, float* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1);
extern "C" __global__ void __launch_bounds__(128, 7) kvb_decode_lightning_87ce7e94(const int* __restrict__ rings, const int* __restrict__ slots, int B, int HV, int N, int P, int R, int64_t rings_s0, int rings_words, int64_t slots_s0, int slots_words, int* __restrict__ cursors, int64_t cursors_s0, const bfloat16_t* __restrict__ k, const bfloat16_t* __restrict__ q, const bfloat16_t* __restrict__ v, int64_t k_s0, int64_t k_s1, int64_t q_s0, int64_t q_s1, int64_t v_s0, int64_t v_s1, const float* __restrict__ slope, int64_t slope_s0, bfloat16_t* __restrict__ record_k, float* __restrict__ record_left0, int64_t record_k_s0, int64_t record_k_s1, int64_t record_k_s2, int64_t record_left0_s0, int64_t record_left0_s1, int64_t record_left0_s2, float* __restrict__ state, int64_t state_s0, int64_t state_s1, int64_t state_s2, bfloat16_t* __restrict__ out, int64_t out_s0, int64_t out_s1) {
  cudaGridDependencySynchronize();
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* v_1 = ((void*)((char*)buf_dyn_shmem + 0));
  void* v_2 = ((void*)((char*)buf_dyn_shmem + 16384));
  void* v_3 = ((void*)((char*)buf_dyn_shmem + 24576));
  void* v_4 = ((void*)((char*)buf_dyn_shmem + 26880));
  void* v_5 = ((void*)((char*)buf_dyn_shmem + 27392));
  void* v_6 = ((void*)((char*)buf_dyn_shmem + 27472));
  float buffer[1];
  bfloat16_t buffer_1[8];
  bfloat16_t buffer_2[8];
  bfloat16_t buffer_3[1];
  float buffer_4[1];
  bfloat16_t buffer_5[16];
  float v_7[1];
  float v_8[4];
  int read[1];
  float buffer_6[1];
  float buffer_7[1];
  float buffer_8[1];
  float partial[1];
  float buffer_9[1];
  float buffer_10[1];
  float v_9[8];
  float v_10[1];
  float other[1];
  float state_1[32];
  float v_11[1];
  bfloat16_t values[8];
  float v_12[1];
  float v_13[1];
  float values_1[2];
  float v_14[8];
  float vector[8];
  float raw[4];
  float total[16];
  float left[4];
  float right[4];
  float raw_1[4];
  float raw_2[4];
  float vector_1[8];
  float sums[4];
  float score[1];
  float v_15[1];
  float v_16[1];
  float v_17[1];
  float v_18[1];
  int slot = slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))];
  int slot_rest = ((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]);
  int ring = rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))];
  int ring_rest = ((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]);
  int n = cursors[int64_t((max(min(slot, P), 0) + ((int)cursors_s0)))];
  int base = cursors[int64_t(max(min(slot, P), 0))];
  int kv_only = cursors[int64_t(((((int)cursors_s0) * 2) + max(min(slot, P), 0)))];
  if ((((((slot_rest == 0) && (0 <= slot)) && (slot < P)) && (ring_rest == 0)) && (0 <= ring)) && (ring < N)) {
    buffer[0] = slope[int64_t((((((int)blockIdx.x) / 4) % HV) * ((int)slope_s0)))];
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
      *(uint2*)(buffer_1 + (m * 4)) = *(uint2*)(k + int64_t(((((m * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) / HV) * ((int)k_s0))) + (((((int)blockIdx.x) / 4) % HV) * ((int)k_s1)))));
    }
    #pragma unroll
    for (int m_1 = 0; m_1 < 2; ++m_1) {
      *(uint2*)(buffer_2 + (m_1 * 4)) = *(uint2*)(q + int64_t(((((m_1 * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) / HV) * ((int)q_s0))) + (((((int)blockIdx.x) / 4) % HV) * ((int)q_s1)))));
    }
    buffer_3[0] = v[int64_t((((((((int)blockIdx.x) % 4) * 32) + (((int)threadIdx.x) >> 2)) + (((((int)blockIdx.x) / 4) / HV) * ((int)v_s0))) + (((((int)blockIdx.x) / 4) % HV) * ((int)v_s1))))];
    buffer_4[0] = slope[int64_t((((((int)blockIdx.x) / 4) % HV) * ((int)slope_s0)))];
    #pragma unroll
    for (int m_2 = 0; m_2 < 2; ++m_2) {
      if (((m_2 * 8) + (((int)threadIdx.x) >> 4)) < n) {
        #pragma unroll
        for (int m_3 = 0; m_3 < 2; ++m_3) {
          *(uint2*)(buffer_5 + ((m_2 * 8) + (m_3 * 4))) = *(uint2*)(record_k + ((int64_t((((m_3 * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) % HV) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(((m_2 * 8) + (((int)threadIdx.x) >> 4)) + base)), ((uint)((((m_2 * 8) + (((int)threadIdx.x) >> 4)) + base) - R)))) * int64_t(((uint)record_k_s1)))));
        }
      }
    }
    v_7[0] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int p = 0; p < 4; ++p) {
      v_8[p] = 0x0p+0f/*0.000000e+00*/;
    }
    v_12[0] = 0x0p+0f/*0.000000e+00*/;
    if ((((int)threadIdx.x) & 15) < n) {
      *(float4*)(v_8 + 0) = *(float4*)(record_left0 + ((int64_t(((((((int)blockIdx.x) % 4) * 32) + ((((int)threadIdx.x) >> 4) * 4)) + (((((int)blockIdx.x) / 4) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(base + (((int)threadIdx.x) & 15))), ((uint)((base + (((int)threadIdx.x) & 15)) - R)))) * int64_t(((uint)record_left0_s1)))));
      v_7[0] = (0x0p+0f/*0.000000e+00*/ - buffer_4[0]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      void* source = (&(state[(int64_t((((((i & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) % HV) * ((int)state_s1))) + (((((((int)blockIdx.x) % 4) * 32) + ((((int)threadIdx.x) >> 4) * 4)) + (i >> 1)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))]));
      tl::cp_async_gs<16>((&(((float*)v_1)[((i * 512) + (((int)threadIdx.x) * 4))])), source);
    }
    tl::cp_async_commit();
    read[0] = (((0 < n) && (((kv_only != 0) ? 0 : 16) <= n)) ? 0 : n);
    if ((((int)threadIdx.x) >> 5) == 0) {
      buffer_6[0] = (0x0p+0f/*0.000000e+00*/ - buffer[0]);
      buffer_7[0] = expf(min(buffer_6[0], 0x1.62e148p+6f/*8.872000e+01*/));
      if ((((int)threadIdx.x) % 16) == 0) {
        ((float*)v_6)[0] = buffer_6[0];
      }
      if ((((int)threadIdx.x) & 15) == 2) {
        ((float*)v_6)[2] = buffer_7[0];
      }
    }
    if ((((int)threadIdx.x) >> 5) == 1) {
      buffer_8[0] = rsqrtf(0x1p+7f/*1.280000e+02*/);
      partial[0] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int c = 0; c < 8; ++c) {
        partial[0] = (partial[0] + (((float)buffer_1[c]) * ((float)buffer_2[c])));
      }
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 8, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 4, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 2, 32));
      partial[0] = (partial[0] + __shfl_xor_sync((uint)4294967295, partial[0], 1, 32));
      buffer_9[0] = partial[0];
      buffer_10[0] = (buffer_8[0] * buffer_9[0]);
      if ((((int)threadIdx.x) & 15) == 1) {
        ((float*)v_6)[1] = buffer_8[0];
      }
      if ((((int)threadIdx.x) & 15) == 3) {
        ((float*)v_6)[3] = buffer_10[0];
      }
    }
    #pragma unroll
    for (int c_1 = 0; c_1 < 8; ++c_1) {
      v_9[c_1] = ((float)buffer_2[c_1]);
    }
    if ((((int)threadIdx.x) >> 4) == 0) {
      #pragma unroll
      for (int c_2 = 0; c_2 < 8; ++c_2) {
        ((float*)v_4)[((((c_2 >> 2) * 64) + ((((int)threadIdx.x) & 15) * 4)) + (c_2 & 3))] = v_9[c_2];
      }
    }
    v_10[0] = 0x0p+0f/*0.000000e+00*/;
    v_13[0] = 0x0p+0f/*0.000000e+00*/;
    other[0] = __shfl_down_sync((uint)4294967295, v_7[0], 1, 16);
    v_7[0] = (v_7[0] + (((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/));
    other[0] = __shfl_down_sync((uint)4294967295, v_7[0], 2, 16);
    v_7[0] = (v_7[0] + (((((int)threadIdx.x) & 15) < 14) ? other[0] : 0x0p+0f/*0.000000e+00*/));
    other[0] = __shfl_down_sync((uint)4294967295, v_7[0], 4, 16);
    v_7[0] = (v_7[0] + (((((int)threadIdx.x) & 15) < 12) ? other[0] : 0x0p+0f/*0.000000e+00*/));
    other[0] = __shfl_down_sync((uint)4294967295, v_7[0], 8, 16);
    v_7[0] = (v_7[0] + (((((int)threadIdx.x) & 15) < 8) ? other[0] : 0x0p+0f/*0.000000e+00*/));
    other[0] = __shfl_down_sync((uint)4294967295, v_7[0], 1, 16);
    other[0] = ((((((int)threadIdx.x) & 15) < 15) ? other[0] : 0x0p+0f/*0.000000e+00*/) + v_10[0]);
    v_10[0] = (v_10[0] + __shfl_sync((uint)4294967295, v_7[0], 0, 16));
    v_7[0] = other[0];
    v_7[0] = expf(v_7[0]);
    #pragma unroll
    for (int p_1 = 0; p_1 < 4; ++p_1) {
      v_8[p_1] = (v_8[p_1] * v_7[0]);
    }
    if ((0 < n) && (((kv_only != 0) ? 0 : 16) <= n)) {
      #pragma unroll
      for (int p_2 = 0; p_2 < 4; ++p_2) {
        ((float*)v_3)[((((((int)threadIdx.x) & 15) * 36) + ((((int)threadIdx.x) >> 4) * 4)) + p_2)] = v_8[p_2];
      }
      #pragma unroll
      for (int m_4 = 0; m_4 < 2; ++m_4) {
        if (((m_4 * 8) + (((int)threadIdx.x) >> 4)) < n) {
          #pragma unroll
          for (int c_3 = 0; c_3 < 8; ++c_3) {
            ((float*)v_2)[(((((m_4 * 1024) + ((((int)threadIdx.x) >> 4) * 128)) + ((c_3 >> 2) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + (c_3 & 3))] = ((float)buffer_5[((m_4 * 8) + c_3)]);
          }
        }
      }
    }
    int n_1 = read[0];
    if (((((int)threadIdx.x) >> 5) * 2) < n_1) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 2; ++i_1) {
        values_1[i_1] = 0x0p+0f/*0.000000e+00*/;
      }
      if ((((int)threadIdx.x) >> 4) < n_1) {
        #pragma unroll
        for (int c_4 = 0; c_4 < 8; ++c_4) {
          v_14[c_4] = ((float)buffer_5[c_4]);
        }
        #pragma unroll
        for (int c_5 = 0; c_5 < 8; ++c_5) {
          vector[c_5] = v_9[c_5];
        }
        #pragma unroll
        for (int c_6 = 0; c_6 < 8; ++c_6) {
          values_1[0] = (values_1[0] + (v_14[c_6] * vector[c_6]));
        }
      }
      if (((((int)threadIdx.x) >> 4) + 8) < n_1) {
        #pragma unroll
        for (int c_7 = 0; c_7 < 8; ++c_7) {
          v_14[c_7] = ((float)buffer_5[(c_7 + 8)]);
        }
        #pragma unroll
        for (int c_8 = 0; c_8 < 8; ++c_8) {
          vector[c_8] = v_9[c_8];
        }
        #pragma unroll
        for (int c_9 = 0; c_9 < 8; ++c_9) {
          values_1[1] = (values_1[1] + (v_14[c_9] * vector[c_9]));
        }
      }
      float kept = ((0 < ((((int)threadIdx.x) & 15) & 8)) ? values_1[1] : values_1[0]);
      float sent = ((0 < ((((int)threadIdx.x) & 15) & 8)) ? values_1[0] : values_1[1]);
      values_1[0] = (kept + __shfl_xor_sync((uint)4294967295, sent, 8, 32));
      values_1[0] = (values_1[0] + __shfl_xor_sync((uint)4294967295, values_1[0], 4, 32));
      values_1[0] = (values_1[0] + __shfl_xor_sync((uint)4294967295, values_1[0], 2, 32));
      values_1[0] = (values_1[0] + __shfl_xor_sync((uint)4294967295, values_1[0], 1, 32));
      if (((((((int)threadIdx.x) & 15) >> 3) * 8) + (((int)threadIdx.x) >> 4)) < n_1) {
        ((float*)v_5)[((((((int)threadIdx.x) & 15) >> 3) * 8) + (((int)threadIdx.x) >> 4))] = values_1[0];
      }
    }
    __syncthreads();
    if ((0 < n) && (((kv_only != 0) ? 0 : 16) <= n)) {
      tl::cp_async_wait<0>();
      #pragma unroll
      for (int i_2 = 0; i_2 < 8; ++i_2) {
        *(float4*)(raw + 0) = *(float4*)(((float*)v_1) + ((i_2 * 512) + (((int)threadIdx.x) * 4)));
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          state_1[((i_2 * 4) + e)] = raw[e];
        }
      }
      if (kv_only != 0) {
        #pragma unroll
        for (int i_3 = 0; i_3 < 32; ++i_3) {
          state_1[i_3] = 0x0p+0f/*0.000000e+00*/;
        }
      }
      #pragma unroll
      for (int m_5 = 0; m_5 < 2; ++m_5) {
        #pragma unroll
        for (int i_4 = 0; i_4 < 16; ++i_4) {
          total[i_4] = 0x0p+0f/*0.000000e+00*/;
        }
        #pragma unroll 2
        for (int e_1 = 0; e_1 < n; ++e_1) {
          #pragma unroll
          for (int p_3 = 0; p_3 < 4; ++p_3) {
            left[p_3] = ((float*)v_3)[int64_t((((e_1 * 36) + ((((int)threadIdx.x) >> 4) * 4)) + p_3))];
          }
          #pragma unroll
          for (int c_10 = 0; c_10 < 4; ++c_10) {
            right[c_10] = ((float*)v_2)[int64_t(((((e_1 * 128) + (m_5 * 64)) + ((((int)threadIdx.x) & 15) * 4)) + c_10))];
          }
          #pragma unroll
          for (int p_4 = 0; p_4 < 4; ++p_4) {
            #pragma unroll
            for (int c_11 = 0; c_11 < 4; ++c_11) {
              total[((p_4 * 4) + c_11)] = (total[((p_4 * 4) + c_11)] + (left[p_4] * right[c_11]));
            }
          }
        }
        #pragma unroll
        for (int p_5 = 0; p_5 < 4; ++p_5) {
          #pragma unroll
          for (int c_12 = 0; c_12 < 4; ++c_12) {
            state_1[(((p_5 * 8) + (m_5 * 4)) + c_12)] = ((state_1[(((p_5 * 8) + (m_5 * 4)) + c_12)] * expf(v_10[0])) + total[((p_5 * 4) + c_12)]);
          }
        }
      }
      #pragma unroll
      for (int i_5 = 0; i_5 < 8; ++i_5) {
        #pragma unroll
        for (int e_2 = 0; e_2 < 4; ++e_2) {
          uint v_ = (uint)4286578687;
          uint v__1 = (uint)2139095039;
          raw_1[e_2] = min(max(state_1[((i_5 * 4) + e_2)], (*(float *)(&(v_)))), (*(float *)(&(v__1))));
          state_1[((i_5 * 4) + e_2)] = raw_1[e_2];
        }
        *(float4*)(state + (int64_t((((((i_5 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) % HV) * ((int)state_s1))) + (((((((int)blockIdx.x) % 4) * 32) + ((((int)threadIdx.x) >> 4) * 4)) + (i_5 >> 1)) * ((int)state_s2)))) + (((int64_t)slot) * state_s0))) = *(float4*)(raw_1 + 0);
      }
      #pragma unroll
      for (int i_6 = 0; i_6 < 4; ++i_6) {
        v_8[i_6] = 0x0p+0f/*0.000000e+00*/;
      }
    } else {
      tl::cp_async_wait<0>();
      #pragma unroll
      for (int i_7 = 0; i_7 < 8; ++i_7) {
        *(float4*)(raw_2 + 0) = *(float4*)(((float*)v_1) + ((i_7 * 512) + (((int)threadIdx.x) * 4)));
        #pragma unroll
        for (int e_3 = 0; e_3 < 4; ++e_3) {
          state_1[((i_7 * 4) + e_3)] = raw_2[e_3];
        }
      }
      if (kv_only != 0) {
        #pragma unroll
        for (int i_8 = 0; i_8 < 32; ++i_8) {
          state_1[i_8] = 0x0p+0f/*0.000000e+00*/;
        }
      }
    }
    v_11[0] = 0x1p+0f/*1.000000e+00*/;
    int n_2 = read[0];
    #pragma unroll
    for (int c_13 = 0; c_13 < 8; ++c_13) {
      vector_1[c_13] = ((float*)v_4)[((((c_13 >> 2) * 64) + ((((int)threadIdx.x) & 15) * 4)) + (c_13 & 3))];
    }
    #pragma unroll
    for (int p_6 = 0; p_6 < 4; ++p_6) {
      sums[p_6] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int c_14 = 0; c_14 < 8; ++c_14) {
        sums[p_6] = (sums[p_6] + (state_1[((p_6 * 8) + c_14)] * vector_1[c_14]));
      }
      sums[p_6] = (((0 < n) && (((kv_only != 0) ? 0 : 16) <= n)) ? sums[p_6] : (sums[p_6] * expf(v_10[0])));
    }
    score[0] = 0x0p+0f/*0.000000e+00*/;
    if ((((int)threadIdx.x) & 15) < n_2) {
      score[0] = ((float*)v_5)[(((int)threadIdx.x) & 15)];
    }
    #pragma unroll
    for (int p_7 = 0; p_7 < 4; ++p_7) {
      float left_1 = v_8[p_7];
      sums[p_7] = (sums[p_7] + (score[0] * left_1));
    }
    #pragma unroll
    for (int at = 0; at < 2; ++at) {
      float kept_1 = ((0 < ((((int)threadIdx.x) & 15) & 8)) ? sums[(at + 2)] : sums[at]);
      float sent_1 = ((0 < ((((int)threadIdx.x) & 15) & 8)) ? sums[at] : sums[(at + 2)]);
      sums[at] = (kept_1 + __shfl_xor_sync((uint)4294967295, sent_1, 8, 32));
    }
    float kept_2 = ((0 < ((((int)threadIdx.x) & 15) & 4)) ? sums[1] : sums[0]);
    float sent_2 = ((0 < ((((int)threadIdx.x) & 15) & 4)) ? sums[0] : sums[1]);
    sums[0] = (kept_2 + __shfl_xor_sync((uint)4294967295, sent_2, 4, 32));
    sums[0] = (sums[0] + __shfl_xor_sync((uint)4294967295, sums[0], 2, 32));
    sums[0] = (sums[0] + __shfl_xor_sync((uint)4294967295, sums[0], 1, 32));
    v_15[0] = sums[0];
    v_15[0] = (v_15[0] * v_11[0]);
    v_15[0] = (v_15[0] * ((float*)v_6)[1]);
    v_16[0] = ((float)buffer_3[0]);
    v_17[0] = v_16[0];
    v_18[0] = 0x1p+0f/*1.000000e+00*/;
    v_18[0] = (v_18[0] * expf(((float*)v_6)[0]));
    v_11[0] = (v_11[0] * v_18[0]);
    if ((((int)threadIdx.x) % 4) == 0) {
      out[int64_t((((((((int)blockIdx.x) % 4) * 32) + (((int)threadIdx.x) >> 2)) + (((((int)blockIdx.x) / 4) / HV) * ((int)out_s0))) + (((((int)blockIdx.x) / 4) % HV) * ((int)out_s1))))] = ((bfloat16_t)((((float*)v_6)[2] * v_15[0]) + (((float)buffer_3[0]) * ((float*)v_6)[3])));
      record_left0[((int64_t(((((((int)blockIdx.x) % 4) * 32) + (((int)threadIdx.x) >> 2)) + (((((int)blockIdx.x) / 4) % HV) * ((int)record_left0_s2)))) + (((int64_t)ring) * record_left0_s0)) + (int64_t(min(((uint)(base + n)), ((uint)((base + n) - R)))) * int64_t(((uint)record_left0_s1))))] = v_16[0];
    }
    if ((((int)threadIdx.x) >> 4) == 0) {
      buffer_6[0] = ((float*)v_6)[0];
      buffer_8[0] = ((float*)v_6)[1];
      buffer_7[0] = ((float*)v_6)[2];
      buffer_10[0] = ((float*)v_6)[3];
      if ((((int)blockIdx.x) % 4) == 0) {
        #pragma unroll
        for (int c_15 = 0; c_15 < 8; ++c_15) {
          values[c_15] = ((bfloat16_t)((float)buffer_1[c_15]));
        }
        #pragma unroll
        for (int m_6 = 0; m_6 < 2; ++m_6) {
          *(uint2*)(record_k + ((int64_t((((m_6 * 64) + ((((int)threadIdx.x) & 15) * 4)) + (((((int)blockIdx.x) / 4) % HV) * ((int)record_k_s2)))) + (((int64_t)ring) * record_k_s0)) + (int64_t(min(((uint)(base + n)), ((uint)((base + n) - R)))) * int64_t(((uint)record_k_s1))))) = *(uint2*)(values + (m_6 * 4));
        }
      }
    }
  } else {
    if ((((int)threadIdx.x) % 4) == 0) {
      out[int64_t((((((((int)blockIdx.x) % 4) * 32) + (((int)threadIdx.x) >> 2)) + (((((int)blockIdx.x) / 4) / HV) * ((int)out_s0))) + (((((int)blockIdx.x) / 4) % HV) * ((int)out_s1))))] = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    }
    if (((((((int)blockIdx.x) / 4) % HV) == 0) && ((((int)blockIdx.x) % 4) == 0)) && (((int)threadIdx.x) == 0)) {
      if (((((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]) == 0) && (0 <= slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))])) && (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] < P)) {
        if (((((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != 0) || (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] < 0)) || (N <= rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))])) {
          cursors[int64_t(((((int)cursors_s0) * 3) + slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))]))] = -1;
          if ((rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] != -1) || (((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != -1)) {
            cursors[int64_t(P)] = ((((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]) == (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31)) ? rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] : ((((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]) < 0) ? -2147483648 : 2147483647));
          }
          if ((rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] != -1) || (((rings_words == 1) ? (rings[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)))] >> 31) : rings[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)rings_s0)) + rings_words) - 1))]) != -1)) {
            cursors[int64_t(((((int)cursors_s0) * 4) + P))] = 1;
          }
        }
      } else {
        if ((slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] != -1) || (((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]) != -1)) {
          cursors[int64_t(P)] = ((((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]) == (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31)) ? slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] : ((((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]) < 0) ? -2147483648 : 2147483647));
        }
        if ((slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] != -1) || (((slots_words == 1) ? (slots[int64_t((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)))] >> 31) : slots[int64_t((((((((int)blockIdx.x) / 4) / HV) * ((int)slots_s0)) + slots_words) - 1))]) != -1)) {
          cursors[int64_t(((((int)cursors_s0) * 4) + P))] = 1;
        }
      }
    }
  }
  cudaTriggerProgrammaticLaunchCompletion();
}

