// The native launcher: checks the arguments of one call against a packed plan (packing.py), works out the launch, and
// starts it.
//
// One binary serves every kernel. It uses the C API of TVM-FFI (to be called), DLPack's exchange API of torch (to look
// into tensors and to ask for the stream), a few functions of CPython's stable ABI, and four of the CUDA driver, whose
// addresses the loader hands in. A call allocates nothing and synchronises nothing. It returns a status and no message:
// where it refuses a call, plan.py carries out the same checks in Python and says why.
//
// A call is given the address of the tuple of its arguments, with the GIL held: TVM-FFI's own conversion makes an
// object for each tensor, which takes 0.2 us apiece.

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

// CPython's stable ABI; its headers may not be installed.
extern "C" {
struct PyObject;
extern char PyLong_Type, PyBool_Type;
PyObject* PyObject_Type(PyObject*);  // a new reference
void Py_DecRef(PyObject*);
int PyType_IsSubtype(PyObject* type, PyObject* base);
intptr_t PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, intptr_t);  // borrowed
long long PyLong_AsLongLong(PyObject*);
PyObject* PyErr_Occurred();
void PyErr_Clear();
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
}

namespace {

// Low three bits of a call's result; the rest is the driver's or the kernel's own code.
enum Status : int64_t { kDone = 0, kRefused = 1, kUnprepared = 2, kFailed = 3 };

constexpr int kMaxSymbols = 512, kMaxSlots = 256, kMaxArguments = 64, kMaxAxes = 6, kMaxStack = 64, kMaxDevices = 64;

struct Step {
  int64_t op, value;
};
using Program = std::vector<Step>;

struct Axis {
  int64_t symbol, offset;  // symbol + offset binds the symbol at first sight; symbol -1: the size is offset
  Program size;            // where not empty: checked when every symbol is bound
  int64_t stride;          // symbol of a free stride; -1: contiguous
};

struct Argument {
  bool tensor;
  int64_t symbol;  // of a scalar
  int64_t code, bits, words, align;  // bits 0: an index tensor, 32 or 64 bits
  int64_t written = 0;               // 2: and apart from every other tensor
  std::vector<Axis> axes;
};

struct Slot {
  int64_t kind;  // 0 pointer, 1 int32, 2 int64, 3 float32
  int64_t argument;
  Program value;
};

// The driver's launch records (cuda.h: CUlaunchAttribute, CUlaunchConfig).
struct LaunchAttribute {
  int id, unused;
  int value[16];
};
constexpr int kOverlap = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

struct Driver {
  int (*launch)(const LaunchConfig*, void* function, void** arguments, void** extra);
  int (*current)(void** context);
  int (*push)(void* context);
  int (*pop)(void** context);
};

using CpuEntry = int32_t (*)(const uint64_t* arguments, const int64_t* grid);

struct Prepared {
  void* context = nullptr;
  std::atomic<void*> function{nullptr};
};

struct Kernel {
  int64_t device_type, symbols, batch, shared, overlap, grid_limits[3];
  std::vector<Argument> arguments;
  std::vector<Program> constraints;
  Program grid[3], block[3];
  std::vector<Slot> slots;
  Driver driver;
  const DLPackExchangeAPI* torch;
  PyObject* tensor_type;
  Prepared devices[kMaxDevices];
};

// --- reading a packed plan, which was made from a validated manifest

struct Reader {
  const int64_t *at, *end;
  bool bad = false;

  int64_t next() {
    if (at == end) bad = true;
    return bad ? 0 : *at++;
  }
  int64_t next(int64_t low, int64_t high) {
    int64_t value = next();
    if (value < low || value > high) bad = true;
    return bad ? low : value;
  }
  Program program(int64_t symbols) {
    Program result(next(0, 4096));
    int64_t depth = 0;
    for (Step& step : result) {
      step = {next(0, 7), next()};
      depth += step.op < 2 ? 1 : -1;
      if (depth < 1 || depth > kMaxStack || (step.op == 1 && (step.value < 0 || step.value >= symbols))) bad = true;
    }
    return result;
  }
};

bool Read(Reader& in, Kernel& k) {
  k.device_type = in.next(1, 2);
  k.symbols = in.next(0, kMaxSymbols);
  int64_t last = k.symbols - 1;
  k.batch = in.next(-1, last);
  k.shared = in.next(0, 1 << 20);
  k.overlap = in.next(0, 1);
  for (int64_t& limit : k.grid_limits) limit = in.next();
  k.arguments.resize(in.next(0, kMaxArguments));
  for (Argument& a : k.arguments) {
    a.tensor = in.next(0, 1);
    if (!a.tensor) {
      a.symbol = in.next(0, last);
      continue;
    }
    a.code = in.next(0, 255), a.bits = in.next(0, 64), a.words = in.next(-1, last);
    a.align = in.next(1, 4096), a.written = in.next(0, 2);
    if (a.align & (a.align - 1)) in.bad = true;
    a.axes.resize(in.next(0, kMaxAxes));
    for (Axis& axis : a.axes) {
      axis.symbol = in.next(-1, last), axis.offset = in.next();
      axis.size = in.program(k.symbols);
      axis.stride = in.next(-1, last);
    }
  }
  k.constraints.resize(in.next(0, 64));
  for (Program& p : k.constraints) p = in.program(k.symbols);
  for (Program& p : k.grid) p = in.program(k.symbols);
  for (Program& p : k.block) p = in.program(k.symbols);
  k.slots.resize(in.next(0, kMaxSlots));
  for (Slot& s : k.slots) {
    s.kind = in.next(0, 3);
    if (s.kind) {
      s.value = in.program(k.symbols);
    } else {
      s.argument = in.next(0, static_cast<int64_t>(k.arguments.size()) - 1);
      if (!in.bad && !k.arguments[s.argument].tensor) in.bad = true;
    }
  }
  return !in.bad && in.at == in.end;
}

// --- one call

bool Evaluate(const Program& program, const int64_t* values, int64_t* result) {
  int64_t stack[kMaxStack], *top = stack - 1;
  for (const Step& step : program) {
    if (step.op < 2) {
      *++top = step.op ? values[step.value] : step.value;
      continue;
    }
    int64_t b = *top--, a = *top;
    switch (step.op) {
      case 2: if (__builtin_add_overflow(a, b, top)) return false; break;
      case 3: if (__builtin_sub_overflow(a, b, top)) return false; break;
      case 4: if (__builtin_mul_overflow(a, b, top)) return false; break;
      case 5:
        if (b == 0 || (a == INT64_MIN && b == -1)) return false;
        *top = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
      case 6: *top = a > b ? a : b; break;
      default: *top = a < b ? a : b;
    }
  }
  *result = *top;
  return true;
}

// Whether two elements share memory: axes in order of stride, each stride beyond the reach of the axes before it.
bool Overlaps(const DLTensor& t, const int64_t* strides) {
  int order[kMaxAxes];
  for (int i = 0; i < t.ndim; ++i) {
    int j = i;
    for (; j > 0 && strides[order[j - 1]] > strides[i]; --j) order[j] = order[j - 1];
    order[j] = i;
  }
  int64_t reach = 0;
  for (int i = 0; i < t.ndim; ++i) {
    int64_t size = t.shape[order[i]], stride = strides[order[i]];
    if (size == 1) continue;
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

bool Empty(const DLTensor& t) {
  for (int i = 0; i < t.ndim; ++i)
    if (t.shape[i] == 0) return true;
  return false;
}

// Bytes from one element to the next along an axis.
int64_t Step(const DLTensor& t, int axis) {
  int64_t stride = 1;
  if (t.strides) {
    stride = t.strides[axis];
  } else {
    for (int i = axis + 1; i < t.ndim; ++i) stride *= t.shape[i];
  }
  return stride * (t.dtype.bits / 8);
}

// Bytes from the first to behind the last element of the axes from `axis` on.
int64_t Extent(const DLTensor& t, int axis) {
  int64_t bytes = t.dtype.bits / 8;
  for (int i = axis; i < t.ndim; ++i) bytes += (t.shape[i] - 1) * Step(t, i);
  return bytes;
}

// Whether axes `axis`.. of both may share memory, b's beginning `gap` bytes after a's (plan.py: _meet).
bool Meet(const DLTensor& a, const DLTensor& b, int64_t gap, int axis) {
  if (gap >= Extent(a, axis) || -gap >= Extent(b, axis)) return false;
  if (axis >= a.ndim || axis >= b.ndim) return true;
  if (a.shape[axis] == 1 && b.shape[axis] == 1) return Meet(a, b, gap, axis + 1);
  int64_t step = Step(a, axis);
  if (step != Step(b, axis) || step < Extent(a, axis + 1) || step < Extent(b, axis + 1)) return true;
  gap = (gap % step + step) % step;
  return Meet(a, b, gap, axis + 1) || Meet(a, b, gap - step, axis + 1);
}

bool IsInstance(PyObject* object, const void* type, const void* but_not = nullptr) {
  PyObject* actual = PyObject_Type(object);
  Py_DecRef(actual);  // the object holds it
  if (actual == type) return true;
  return actual != but_not && PyType_IsSubtype(actual, static_cast<PyObject*>(const_cast<void*>(type)));
}

bool ReadInt(PyObject* object, int64_t* value) {
  if (!IsInstance(object, &PyLong_Type, &PyBool_Type)) return false;
  *value = PyLong_AsLongLong(object);
  if (*value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
  return *value == static_cast<int32_t>(*value);
}

// Shape and strides stay the tensor's own.
bool ReadTensor(const Kernel& k, PyObject* object, DLTensor* tensor) {
  if (!IsInstance(object, k.tensor_type)) return false;
  if (k.torch->dltensor_from_py_object_no_sync(object, tensor) == 0) return true;
  PyErr_Clear();  // sparse, say
  return false;
}

char* Address(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

constexpr int64_t kUnbound = INT64_MIN;

bool CheckTensor(const Argument& a, const DLTensor& t, int64_t* values) {
  int64_t bits = t.dtype.bits, item = bits / 8, words = 1;
  if (t.dtype.code != a.code || t.dtype.lanes != 1 || t.ndim != static_cast<int>(a.axes.size())) return false;
  if (a.bits ? bits != a.bits : bits != 32 && bits != 64) return false;
  if (!a.bits) values[a.words] = words = bits / 32;
  bool empty = false;
  for (int i = 0; i < t.ndim; ++i) {
    const Axis& axis = a.axes[i];
    empty |= t.shape[i] == 0;
    if (!axis.size.empty()) continue;
    int64_t expected = axis.offset;
    if (axis.symbol >= 0) {
      int64_t& value = values[axis.symbol];
      if (value == kUnbound) value = t.shape[i] - axis.offset;
      if (value < 0) return false;
      expected += value;
    }
    if (t.shape[i] != expected) return false;
  }
  int64_t dense[kMaxAxes], *strides = t.strides;
  if (!strides) {  // DLPack: a dense tensor may leave them out
    int64_t step = 1;
    for (int i = t.ndim - 1; i >= 0; step *= t.shape[i--]) dense[i] = step;
    strides = dense;
  }
  int64_t expected = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    bool skipped = empty || t.shape[i] == 1;
    int64_t stride = skipped ? 0 : strides[i];
    if (a.axes[i].stride >= 0) {
      values[a.axes[i].stride] = stride * words;
      if (stride * item & (a.align - 1)) return false;
    } else if (!skipped && stride != expected) {
      return false;
    }
    expected = (skipped ? expected : stride) * t.shape[i];
  }
  if (empty) return true;
  return (reinterpret_cast<uintptr_t>(Address(t)) & (a.align - 1)) == 0 && !(a.written && Overlaps(t, strides));
}

bool Bind(const Kernel& k, PyObject* given, DLTensor* tensors, int64_t* values, DLDevice* device) {
  int count = static_cast<int>(k.arguments.size());
  if (PyTuple_Size(given) != count) return false;
  for (int64_t i = 0; i < k.symbols; ++i) values[i] = kUnbound;
  const DLTensor* first = nullptr;
  for (int i = 0; i < count; ++i) {
    const Argument& a = k.arguments[i];
    PyObject* object = PyTuple_GetItem(given, i);
    if (!a.tensor) {
      if (!ReadInt(object, &values[a.symbol])) return false;
      continue;
    }
    DLTensor& t = tensors[i];
    if (!ReadTensor(k, object, &t) || t.device.device_type != k.device_type) return false;
    if (!first) first = &t;
    if (t.device.device_id != first->device.device_id || !CheckTensor(a, t, values)) return false;
  }
  for (int i = 0; i < count; ++i) {
    for (int j = 0; k.arguments[i].written == 2 && j < count; ++j) {
      if (j == i || !k.arguments[j].tensor || Empty(tensors[i]) || Empty(tensors[j])) continue;
      if (Meet(tensors[i], tensors[j], Address(tensors[j]) - Address(tensors[i]), 0)) return false;
    }
    const std::vector<Axis>& axes = k.arguments[i].axes;
    for (size_t j = 0; j < axes.size(); ++j) {
      int64_t size;
      if (axes[j].size.empty()) continue;
      if (!Evaluate(axes[j].size, values, &size) || size != tensors[i].shape[j]) return false;
    }
  }
  for (const Program& p : k.constraints) {
    int64_t value;
    if (!Evaluate(p, values, &value) || value < 0) return false;
  }
  if (first) *device = first->device;
  return true;
}

// Returns a CUresult.
int LaunchCuda(const Kernel& k, const Prepared& on, void* stream, const int64_t* grid, const int64_t* block,
               uint64_t* slots) {
  LaunchConfig config{};
  for (int i = 0; i < 3; ++i) config.grid[i] = grid[i], config.block[i] = block[i];
  config.shared = k.shared;
  config.stream = stream;
  LaunchAttribute overlap{kOverlap, 0, {1}};
  config.attributes = k.overlap ? &overlap : nullptr;
  config.attribute_count = k.overlap;
  void *pointers[kMaxSlots], *before = nullptr;
  for (size_t i = 0; i < k.slots.size(); ++i) pointers[i] = &slots[i];
  // The default stream belongs to the current context, which may be another device's or, on a fresh thread, none.
  int code = k.driver.current(&before);
  bool foreign = !code && before != on.context;
  if (foreign) code = k.driver.push(on.context);
  if (code) return code;
  code = k.driver.launch(&config, on.function.load(std::memory_order_relaxed), pointers, nullptr);
  if (foreign) k.driver.pop(&before);
  return code;
}

int64_t Call(const Kernel& k, PyObject* given) {
  DLTensor tensors[kMaxArguments];
  int64_t values[kMaxSymbols], grid[3], block[3];
  DLDevice device{static_cast<DLDeviceType>(k.device_type), 0};
  if (!Bind(k, given, tensors, values, &device)) return kRefused;
  if (k.batch >= 0 && values[k.batch] == 0) return kDone;
  bool nothing = false;
  for (int i = 0; i < 3; ++i) {
    if (!Evaluate(k.grid[i], values, &grid[i]) || grid[i] < 0) return kRefused;
    nothing |= grid[i] == 0;
  }
  if (nothing) return kDone;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] > k.grid_limits[i]) return kRefused;
    if (!Evaluate(k.block[i], values, &block[i]) || block[i] < 1 || block[i] > 1024) return kRefused;
  }
  uint64_t slots[kMaxSlots];
  for (size_t i = 0; i < k.slots.size(); ++i) {
    const Slot& s = k.slots[i];
    int64_t value;
    if (s.kind == 0) {
      slots[i] = reinterpret_cast<uint64_t>(Address(tensors[s.argument]));
    } else if (!Evaluate(s.value, values, &value) || (s.kind == 1 && value != static_cast<int32_t>(value))) {
      return kRefused;
    } else if (s.kind == 3) {
      float number = static_cast<float>(value);
      slots[i] = 0;
      std::memcpy(&slots[i], &number, sizeof number);
    } else {
      slots[i] = static_cast<uint64_t>(value);
    }
  }
  if (device.device_id < 0 || device.device_id >= kMaxDevices) return kUnprepared;
  const Prepared& on = k.devices[device.device_id];
  void* function = on.function.load(std::memory_order_acquire);
  if (!function) return kUnprepared;
  void* stream = nullptr;
  const bool cuda = k.driver.launch;
  if (cuda && k.torch->current_work_stream(device.device_type, device.device_id, &stream)) {
    PyErr_Clear();
    return kRefused;
  }
  // Other Python threads go on while a CPU kernel runs, or a full queue of the GPU makes the driver wait.
  void* thread = PyEval_SaveThread();
  int64_t code = cuda ? LaunchCuda(k, on, stream, grid, block, slots)
                      : reinterpret_cast<CpuEntry>(function)(slots, grid);
  PyEval_RestoreThread(thread);
  return code ? code * 8 + kFailed : kDone;
}

int Fail(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

// The callable: the address of a tuple -> status. To be called with the GIL.
int CallPacked(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count != 1 || args[0].type_index != kTVMFFIInt) return Fail("a kernel takes the address of a tuple");
  result->type_index = kTVMFFIInt;
  result->v_int64 = Call(*static_cast<Kernel*>(self), reinterpret_cast<PyObject*>(args[0].v_int64));
  return 0;
}

}  // namespace

// create(plan, length, torch's exchange API, torch.Tensor, launch, current, push, pop) -> kernel: addresses as
// integers, those of the driver 0 for a CPU.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_create(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count != 8) return Fail("create takes 8 integers");
  const int64_t* plan = reinterpret_cast<const int64_t*>(args[0].v_int64);
  Reader in{plan, plan + args[1].v_int64};
  Kernel* kernel = new Kernel;
  if (!Read(in, *kernel)) {
    delete kernel;
    return Fail("the plan does not fit this launcher");
  }
  kernel->torch = reinterpret_cast<const DLPackExchangeAPI*>(args[2].v_int64);
  kernel->tensor_type = reinterpret_cast<PyObject*>(args[3].v_int64);
  static_assert(sizeof(Driver) == 4 * sizeof(int64_t), "four addresses");
  for (int i = 0; i < 4; ++i) std::memcpy(reinterpret_cast<char*>(&kernel->driver) + 8 * i, &args[4 + i].v_int64, 8);
  result->type_index = kTVMFFIInt;
  result->v_int64 = reinterpret_cast<int64_t>(kernel);
  return 0;
}

// function(kernel) -> the callable, which owns the kernel: to be asked for once.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_function(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count != 1) return Fail("function takes a kernel");
  TVMFFIObjectHandle handle;
  auto destroy = [](void* self) { delete static_cast<Kernel*>(self); };
  if (TVMFFIFunctionCreate(reinterpret_cast<void*>(args[0].v_int64), CallPacked, destroy, &handle)) return -1;
  result->type_index = kTVMFFIFunction;
  result->v_obj = static_cast<TVMFFIObject*>(handle);
  return 0;
}

// prepare(kernel, device, context, function): what to start on this device.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_prepare(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  if (count != 4 || args[1].v_int64 < 0 || args[1].v_int64 >= kMaxDevices) return Fail("a device is 0 to 63");
  Prepared& on = reinterpret_cast<Kernel*>(args[0].v_int64)->devices[args[1].v_int64];
  on.context = reinterpret_cast<void*>(args[2].v_int64);
  on.function.store(reinterpret_cast<void*>(args[3].v_int64), std::memory_order_release);
  return 0;
}
