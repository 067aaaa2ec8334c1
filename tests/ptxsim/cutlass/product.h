// CUTLASS's own block-scaled FP4 kernels, as its collective builders make them, behind C functions: what each unit here
// instantiates for its chip, so that the simulator runs kernels that nobody of this project wrote.
//
// D = alpha * A * B^T. A [m, k] and B [n, k] hold packed e2m1, rows without gaps; scales lie swizzled (fp4aot/formats.h);
// D [m, n] is bf16, rows without gaps. k is a multiple of 32, n of 8. All addresses are of device memory.
#ifndef PTXSIM_CUTLASS_PRODUCT_H_
#define PTXSIM_CUTLASS_PRODUCT_H_

#include <cuda_runtime_api.h>

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cstdint>
#include <cstring>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <vector>

namespace cutlass_product {

using Nvfp4 = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Mxfp4 = cutlass::mx_float4_t<cutlass::float_e2m1_t>;
// What the builder of the K = 96 instructions takes in their place.
using UltraNvfp4 = cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>;

using PlainProblem = cute::Shape<int, int, int, int>;
using GroupedProblem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;

// Config names what the builders take: Problem, Arch, Element, Tile, Cluster, Schedule; EpilogueArch, EpilogueClass,
// EpilogueTile, EpilogueSchedule. A grouped kernel's layouts are pointers to one a group.
template <class Config>
struct Collectives {
  static constexpr bool kGrouped = cute::is_same_v<typename Config::Problem, GroupedProblem>;
  using Output = cutlass::bfloat16_t;
  template <class Layout>
  using OfGroups = std::conditional_t<kGrouped, Layout*, Layout>;
  using Row = OfGroups<cutlass::layout::RowMajor>;
  using Column = OfGroups<cutlass::layout::ColumnMajor>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      typename Config::EpilogueArch, typename Config::EpilogueClass, typename Config::Tile, typename Config::Cluster,
      typename Config::EpilogueTile, float, float, void, Row, 8, Output, Row, 8,
      typename Config::EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      typename Config::Arch, cutlass::arch::OpClassBlockScaledTensorOp, typename Config::Element, Row, 32,
      typename Config::Element, Column, 32, float, typename Config::Tile, typename Config::Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      typename Config::Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<typename Config::Problem, Mainloop, Epilogue, void>;
};

// One product, or one group of several.
struct Operands {
  int32_t m, n, k;
  void const *a, *b, *a_scales, *b_scales;
  void* d;
  float const* alpha;
};

// Lets the kernels behind it in the stream start at once, and copies then: what they read of it too early is old.
__global__ void deliver_words(uint32_t* to, uint32_t const* from, size_t words) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) to[i] = from[i];
}

inline void deliver(void* to, void const* from, size_t bytes) {
  deliver_words<<<2, 128>>>(static_cast<uint32_t*>(to), static_cast<uint32_t const*>(from), bytes / sizeof(uint32_t));
}

// Small arrays in device memory: filled here, then all brought there together.
class DeviceArrays {
 public:
  DeviceArrays() { cudaMalloc(&device_, kBytes); }
  ~DeviceArrays() {
    cudaFree(device_);
    cudaFree(staged_);
  }

  template <class T>
  T* add(std::vector<T> const& values) {
    size_t const start = (host_.size() + kAlignment - 1) / kAlignment * kAlignment;
    host_.resize(start + values.size() * sizeof(T));
    std::memcpy(host_.data() + start, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(static_cast<uint8_t*>(device_) + start);
  }

  // late: by a kernel that lets the next one start before.
  bool bring(bool late) {
    host_.resize((host_.size() + 3) / 4 * 4);
    if (host_.size() > kBytes) return false;
    if (!late) return cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice) == cudaSuccess;
    cudaMalloc(&staged_, kBytes);
    cudaMemcpy(staged_, host_.data(), host_.size(), cudaMemcpyHostToDevice);
    deliver(device_, staged_, host_.size());
    return cudaGetLastError() == cudaSuccess;
  }

 private:
  static constexpr size_t kBytes = 1 << 16, kAlignment = 128;
  std::vector<uint8_t> host_;
  void *device_ = nullptr, *staged_ = nullptr;
};

// Null if all went well, else what did not. pdl: as a programmatic dependent launch. Returns when the device is done.
template <class Kernel>
char const* run(typename Kernel::Arguments const& args, bool pdl) {
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  auto const why = [](cutlass::Status status) { return cutlass::cutlassGetStatusString(status); };
  cudaGetLastError();  // of what was run before: CUTLASS would take it for its own
  if (auto const status = Gemm::can_implement(args); status != cutlass::Status::kSuccess) return why(status);
  void* workspace = nullptr;
  if (size_t const bytes = Gemm::get_workspace_size(args); bytes != 0) cudaMalloc(&workspace, bytes);
  Gemm gemm;
  auto status = gemm.initialize(args, workspace);
  if (status == cutlass::Status::kSuccess) status = gemm.run(nullptr, nullptr, pdl);
  cudaError_t const error = cudaDeviceSynchronize();
  cudaFree(workspace);
  if (status != cutlass::Status::kSuccess) return why(status);
  return error == cudaSuccess ? nullptr : cudaGetErrorName(error);
}

template <class Config>
char const* plain(Operands const& x, bool pdl) {
  using Kernel = typename Collectives<Config>::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Scales = typename Mainloop::Sm1xxBlkScaledConfig;
  typename Kernel::Arguments args{};
  args.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  args.problem_shape = {x.m, x.n, x.k, 1};
  args.mainloop.ptr_A = static_cast<decltype(args.mainloop.ptr_A)>(x.a);
  args.mainloop.ptr_B = static_cast<decltype(args.mainloop.ptr_B)>(x.b);
  args.mainloop.ptr_SFA = static_cast<decltype(args.mainloop.ptr_SFA)>(x.a_scales);
  args.mainloop.ptr_SFB = static_cast<decltype(args.mainloop.ptr_SFB)>(x.b_scales);
  cute::get<0>(args.mainloop.dA) = cute::get<0>(args.mainloop.dB) = x.k;
  args.mainloop.layout_SFA = Scales::tile_atom_to_shape_SFA(args.problem_shape);
  args.mainloop.layout_SFB = Scales::tile_atom_to_shape_SFB(args.problem_shape);
  args.epilogue.thread.alpha_ptr = x.alpha;
  args.epilogue.thread.beta = 0.0f;
  args.epilogue.ptr_D = static_cast<decltype(args.epilogue.ptr_D)>(x.d);
  cute::get<0>(args.epilogue.dD) = x.n;
  return run<Kernel>(args, pdl);
}

// One alpha a group. late: sizes, addresses and strides of the groups are delivered just before the launch.
template <class Config>
char const* grouped(std::vector<Operands> const& groups, bool pdl, bool late) {
  using Kernel = typename Collectives<Config>::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Epilogue = typename Kernel::CollectiveEpilogue;
  using Scales = typename Mainloop::Sm1xxBlkScaledConfig;
  typename Kernel::Arguments args{};
  DeviceArrays arrays;
  // An argument's array of what `of` gives for each group, cast to the array's elements.
  auto const set = [&](auto& argument, auto const& of) {
    using Pointer = std::decay_t<decltype(argument)>;
    using Element = std::remove_const_t<std::remove_pointer_t<Pointer>>;
    std::vector<Element> values;
    for (Operands const& x : groups) {
      if constexpr (std::is_pointer_v<Element>) {
        values.push_back(static_cast<Element>(of(x)));
      } else {
        values.push_back(of(x));
      }
    }
    argument = arrays.add(values);
  };
  using Shape = typename GroupedProblem::UnderlyingProblemShape;
  std::vector<Shape> shapes;
  for (Operands const& x : groups) shapes.push_back({x.m, x.n, x.k});
  args.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  args.problem_shape = {static_cast<int32_t>(groups.size()), arrays.add(shapes), shapes.data()};
  set(args.mainloop.ptr_A, [](Operands const& x) { return x.a; });
  set(args.mainloop.ptr_B, [](Operands const& x) { return x.b; });
  set(args.mainloop.ptr_SFA, [](Operands const& x) { return x.a_scales; });
  set(args.mainloop.ptr_SFB, [](Operands const& x) { return x.b_scales; });
  set(args.epilogue.ptr_D, [](Operands const& x) { return x.d; });
  set(args.epilogue.thread.alpha_ptr_array, [](Operands const& x) { return x.alpha; });
  args.epilogue.thread.beta = 0.0f;
  set(args.mainloop.dA, [](Operands const& x) {
    typename Mainloop::InternalStrideA stride{};
    cute::get<0>(stride) = x.k;
    return stride;
  });
  set(args.mainloop.dB, [](Operands const& x) {
    typename Mainloop::InternalStrideB stride{};
    cute::get<0>(stride) = x.k;
    return stride;
  });
  set(args.epilogue.dD, [](Operands const& x) {
    typename Epilogue::InternalStrideD stride{};
    cute::get<0>(stride) = x.n;
    return stride;
  });
  auto const shape = [](Operands const& x) { return cute::make_shape(x.m, x.n, x.k, 1); };
  set(args.mainloop.layout_SFA, [&](Operands const& x) { return Scales::tile_atom_to_shape_SFA(shape(x)); });
  set(args.mainloop.layout_SFB, [&](Operands const& x) { return Scales::tile_atom_to_shape_SFB(shape(x)); });
  args.hw_info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  if (!arrays.bring(late)) return "the groups' arrays could not be brought to the device";
  return run<Kernel>(args, pdl);
}

}  // namespace cutlass_product

extern "C" {
void deliver(void* to, void const* from, size_t bytes) { cutlass_product::deliver(to, from, bytes); }
}

#endif
