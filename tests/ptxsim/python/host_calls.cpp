// Stands in for libfp4aot.so in a process that tests the Python package on a simulated GPU: a call on host memory is run
// on device 0 of the simulator. Its buffers are copied there and back; everything else is the core's own doing, which
// loads the image, checks, chooses and launches as on a GPU. Calls that name a CUDA device go to the core as they are.
//
// Bytes between the rows of an input are never written on the device, so that a kernel which reads them is found out;
// those between the rows of an output are copied both ways, so that a kernel which writes them is.
//
// FP4AOT_CORE is the core; libptxsim.so is found by the loader.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"

namespace {

thread_local std::string own_error;  // empty: the core has the last one
std::atomic<long> calls{0};          // that ran on the simulated device

void* open(char const* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "host_calls: %s\n", dlerror());
    std::abort();
  }
  return library;
}

template <class F>
F find(void* library, char const* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "host_calls: no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<F>(found);
}

void* core() {
  static void* const library = open(std::getenv("FP4AOT_CORE"));
  return library;
}

#define CORE(name) find<decltype(&name)>(core(), #name)

struct Simulator {
  void* library = open("libptxsim.so");
  int (*allocate)(void**, size_t) = find<int (*)(void**, size_t)>(library, "cudaMalloc");
  int (*release)(void*) = find<int (*)(void*)>(library, "cudaFree");
  int (*copy)(void*, void const*, size_t, int) = find<int (*)(void*, void const*, size_t, int)>(library, "cudaMemcpy");
  int (*synchronize)() = find<int (*)()>(library, "cudaDeviceSynchronize");
  char const* (*findings)() = find<char const* (*)()>(library, "ptxsim_findings_json");
  char const* (*complaints)() = find<char const* (*)()>(library, "ptxsim_complaints");
  void (*clear)() = find<void (*)()>(library, "ptxsim_clear");
  std::mutex mutex;

  static Simulator& get() {
    static Simulator simulator;
    return simulator;
  }
};

fp4aot_device simulated(fp4aot_device device) {
  return device.type == FP4AOT_CPU && device.index == 0 ? fp4aot_device{FP4AOT_CUDA, 0} : device;
}

fp4aot_status of_core(fp4aot_status status) {
  if (status != FP4AOT_OK) own_error.clear();
  return status;
}

fp4aot_status refuse(std::string text) {
  own_error = std::move(text);
  return FP4AOT_LAUNCH_FAILED;
}

enum class Use { kRead, kWritten, kBoth };

// The buffers of one call, on the device while it lives.
class Buffers {
 public:
  explicit Buffers(Simulator& simulator) : sim_(simulator) {}
  ~Buffers() {
    for (void* pointer : allocated_) sim_.release(pointer);
  }

  void* allocate(size_t bytes) {
    void* pointer = nullptr;
    if (sim_.allocate(&pointer, bytes) != 0) return nullptr;
    allocated_.push_back(pointer);
    return pointer;
  }

  // Replaces *field, rows of row_bytes that lie stride bytes apart, by its copy, as far off a multiple of 256 bytes as
  // the original. Null and what has no bytes stays: the core refuses it, or reads nothing.
  template <class T>
  void add(T*& field, int64_t rows, int64_t row_bytes, int64_t stride, Use use) {
    if (field == nullptr || rows <= 0 || row_bytes <= 0 || !ok) return;
    auto* const host = reinterpret_cast<uint8_t*>(const_cast<std::remove_const_t<T>*>(field));
    size_t const lead = reinterpret_cast<uintptr_t>(host) % 256;
    size_t const bytes = static_cast<size_t>((rows - 1) * stride + row_bytes);
    auto* device = static_cast<uint8_t*>(allocate(lead + bytes));
    ok = device != nullptr;
    if (!ok) return;
    device += lead;
    field = reinterpret_cast<T*>(device);
    if (use != Use::kRead) written_.push_back({host, device, bytes});
    if (use == Use::kBoth || (use == Use::kRead && stride == row_bytes)) {
      ok = sim_.copy(device, host, bytes, kToDevice) == 0;
      return;
    }
    for (int64_t row = 0; row < rows && ok; ++row) {
      int64_t const at = row * stride, gap = stride - row_bytes;
      if (use == Use::kRead) ok = sim_.copy(device + at, host + at, static_cast<size_t>(row_bytes), kToDevice) == 0;
      if (use == Use::kWritten && gap > 0 && row + 1 < rows)
        ok = sim_.copy(device + at + row_bytes, host + at + row_bytes, static_cast<size_t>(gap), kToDevice) == 0;
    }
  }
  template <class T>
  void add(T*& field, int64_t bytes, Use use) {
    add(field, 1, bytes, bytes, use);
  }

  void copy_back() {
    for (Written const& w : written_) ok = ok && sim_.copy(w.host, w.device, w.bytes, kToHost) == 0;
  }

  bool ok = true;

 private:
  static constexpr int kToDevice = 1, kToHost = 2;
  struct Written {
    uint8_t *host, *device;
    size_t bytes;
  };
  Simulator& sim_;
  std::vector<void*> allocated_;
  std::vector<Written> written_;
};

int64_t element(int32_t dtype) { return dtype == FP4AOT_FP32 ? 4 : 2; }

void move(fp4aot_op op, fp4aot_quantize_params& p, Buffers& b) {
  bool const halves = op == FP4AOT_OP_silu_mul_quantize_nvfp4 || op == FP4AOT_OP_silu_mul_quantize_mxfp4;
  int64_t const bytes = element(p.input_dtype);
  b.add(p.input, p.rows, p.k * bytes * (halves ? 2 : 1), p.input_stride * bytes, Use::kRead);
  b.add(p.global_scale, 4, Use::kRead);
  b.add(p.codes, p.rows, p.k / 2, p.codes_stride, Use::kWritten);
  b.add(p.scales, p.scales_bytes, Use::kBoth);  // there may be more bytes than are written
  b.add(p.weight, p.k * bytes, Use::kRead);
  b.add(p.residual, p.rows, p.k * bytes, p.residual_stride * bytes, Use::kBoth);
}

void move(fp4aot_op, fp4aot_dequantize_params& p, Buffers& b) {
  int64_t const bytes = element(p.output_dtype);
  b.add(p.codes, p.rows, p.k / 2, p.codes_stride, Use::kRead);
  b.add(p.scales, p.scales_bytes, Use::kRead);
  b.add(p.global_scale, 4, Use::kRead);
  b.add(p.output, p.rows, p.k * bytes, p.output_stride * bytes, Use::kWritten);
}

void move(fp4aot_op, fp4aot_global_scale_params& p, Buffers& b) {
  int64_t const bytes = element(p.input_dtype);
  b.add(p.input, p.rows, p.k * bytes, p.input_stride * bytes, Use::kRead);
  b.add(p.global_scale, 4, Use::kWritten);
}

void move(fp4aot_op op, fp4aot_scale_layout_params& p, Buffers& b) {
  bool const swizzles = op == FP4AOT_OP_swizzle_scales;
  b.add(p.linear, p.rows, p.columns, p.linear_stride, swizzles ? Use::kRead : Use::kWritten);
  b.add(p.swizzled, p.swizzled_bytes, swizzles ? Use::kBoth : Use::kRead);
}

void move(fp4aot_op, fp4aot_gemm_params& p, Buffers& b) {
  b.add(p.a_codes, p.m, p.k / 2, p.a_stride, Use::kRead);
  b.add(p.a_scales, p.a_scales_bytes, Use::kRead);
  b.add(p.b_codes, p.n, p.k / 2, p.b_stride, Use::kRead);
  b.add(p.b_scales, p.b_scales_bytes, Use::kRead);
  b.add(p.alpha, 4, Use::kRead);
  b.add(p.bias, p.n * element(p.bias_dtype), Use::kRead);
  b.add(p.d, p.m, p.n * element(p.d_dtype), p.d_stride * element(p.d_dtype), Use::kWritten);
}

void move(fp4aot_op op, fp4aot_w4a16_weights_params& p, Buffers& b) {
  bool const prepares = op == FP4AOT_OP_prepare_w4a16_nvfp4 || op == FP4AOT_OP_prepare_w4a16_mxfp4;
  b.add(p.codes, p.n, p.k / 2, p.codes_stride, prepares ? Use::kRead : Use::kWritten);
  b.add(p.scales, p.scales_bytes, prepares ? Use::kRead : Use::kBoth);
  b.add(p.prepared, p.prepared_bytes, prepares ? Use::kBoth : Use::kRead);
}

void move(fp4aot_op, fp4aot_gemm_w4a16_params& p, Buffers& b) {
  b.add(p.a, p.m, p.k * element(p.a_dtype), p.a_stride * element(p.a_dtype), Use::kRead);
  b.add(p.prepared, p.prepared_bytes, Use::kRead);
  b.add(p.alpha, 4, Use::kRead);
  b.add(p.bias, p.n * element(p.bias_dtype), Use::kRead);
  b.add(p.d, p.m, p.n * element(p.d_dtype), p.d_stride * element(p.d_dtype), Use::kWritten);
}

template <class Params>
auto give_workspace(Params& p, Buffers& b, size_t bytes, int) -> decltype(p.workspace, void()) {
  if (bytes > 0 && p.workspace != nullptr) p.workspace = b.allocate(bytes);
}
template <class Params>
void give_workspace(Params&, Buffers&, size_t, long) {}

template <class Params>
bool on_host(Params const* p) {
  return p != nullptr && p->struct_size == sizeof(Params) && p->device.type == FP4AOT_CPU && p->device.index == 0;
}

template <class Params>
fp4aot_status run(fp4aot_op op, fp4aot_status (*real)(Params const*),
                  fp4aot_status (*workspace_size)(Params const*, size_t*), Params const* given) {
  if (!on_host(given)) return of_core(real(given));
  Params p = *given;
  p.device = simulated(p.device);
  p.stream = nullptr;
  size_t workspace = 0;
  fp4aot_status status = workspace_size(&p, &workspace);  // checks all sizes, so that buffers can be copied
  if (status != FP4AOT_OK) return of_core(status);
  Simulator& sim = Simulator::get();
  std::lock_guard<std::mutex> const lock(sim.mutex);
  Buffers buffers(sim);
  move(op, p, buffers);
  give_workspace(p, buffers, workspace, 0);
  if (buffers.ok) status = real(&p);
  if (status != FP4AOT_OK) return of_core(status);
  if (buffers.ok) sim.synchronize(), buffers.copy_back();
  ++calls;
  std::string const findings = sim.findings(), complaints = sim.complaints();
  if (buffers.ok && findings == "[]" && complaints.empty()) return FP4AOT_OK;
  sim.clear();
  return refuse("the simulator found: " + findings + " " + complaints);
}

template <class Params>
fp4aot_status size_of(fp4aot_status (*real)(Params const*, size_t*), Params const* given, size_t* bytes) {
  if (!on_host(given)) return of_core(real(given, bytes));
  Params p = *given;
  p.device = simulated(p.device);
  return of_core(real(&p, bytes));
}

// Calls f with the op's params on the simulated device.
template <class F>
fp4aot_status with_params(fp4aot_op op, void const* params, F f) {
  switch (op) {
#define FP4AOT_OP(name, Params)                                         \
  case FP4AOT_OP_##name: {                                              \
    if (!on_host(static_cast<Params const*>(params))) return f(params); \
    Params p = *static_cast<Params const*>(params);                     \
    p.device = simulated(p.device);                                     \
    return f(&p);                                                       \
  }
#include "fp4aot/ops.def"
#undef FP4AOT_OP
    default:
      return f(params);
  }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

#define FP4AOT_OP(name, Params)                                                         \
  EXPORT fp4aot_status fp4aot_##name(Params const* p) {                                 \
    static auto const real = CORE(fp4aot_##name);                                       \
    static auto const real_size = CORE(fp4aot_##name##_workspace_size);                 \
    return run(FP4AOT_OP_##name, real, real_size, p);                                   \
  }                                                                                     \
  EXPORT fp4aot_status fp4aot_##name##_workspace_size(Params const* p, size_t* bytes) { \
    static auto const real = CORE(fp4aot_##name##_workspace_size);                      \
    return size_of(real, p, bytes);                                                     \
  }
#include "fp4aot/ops.def"
#undef FP4AOT_OP

EXPORT fp4aot_status fp4aot_list_tactics(fp4aot_op op, void const* params, int32_t* tactics, size_t* count) {
  return of_core(
      with_params(op, params, [&](void const* p) { return CORE(fp4aot_list_tactics)(op, p, tactics, count); }));
}
EXPORT fp4aot_status fp4aot_default_tactic(fp4aot_op op, void const* params, int32_t* tactic) {
  return of_core(with_params(op, params, [&](void const* p) { return CORE(fp4aot_default_tactic)(op, p, tactic); }));
}
EXPORT fp4aot_status fp4aot_tactic_name(fp4aot_op op, fp4aot_device device, int32_t tactic, char const** name) {
  return of_core(CORE(fp4aot_tactic_name)(op, simulated(device), tactic, name));
}
EXPORT fp4aot_status fp4aot_w4a16_prepared_bytes(fp4aot_op op, int64_t n, int64_t k, int64_t* bytes) {
  return of_core(CORE(fp4aot_w4a16_prepared_bytes)(op, n, k, bytes));
}
EXPORT char const* fp4aot_last_error(void) { return own_error.empty() ? CORE(fp4aot_last_error)() : own_error.c_str(); }
EXPORT char const* fp4aot_op_name(fp4aot_op op) { return CORE(fp4aot_op_name)(op); }
EXPORT char const* fp4aot_version(void) { return CORE(fp4aot_version)(); }
EXPORT uint32_t fp4aot_abi_version(void) { return CORE(fp4aot_abi_version)(); }
EXPORT int fp4aot_supports(fp4aot_op op, fp4aot_device device) { return CORE(fp4aot_supports)(op, simulated(device)); }
EXPORT fp4aot_status fp4aot_preload(fp4aot_device device) { return of_core(CORE(fp4aot_preload)(simulated(device))); }
EXPORT fp4aot_status fp4aot_set_cpu_executor(fp4aot_executor const* executor) {
  return of_core(CORE(fp4aot_set_cpu_executor)(executor));
}
EXPORT fp4aot_status fp4aot_image_name(fp4aot_device device, char const** name) {
  return of_core(CORE(fp4aot_image_name)(simulated(device), name));
}
EXPORT char const* fp4aot_info_json(void) { return CORE(fp4aot_info_json)(); }

// Of the tests: calls that ran on the simulated device so far.
EXPORT long fp4aot_simulated_calls() { return calls; }
