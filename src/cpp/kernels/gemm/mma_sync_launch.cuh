// Launches the W4A4 kernel of mma_sync.cuh.
#ifndef FP4AOT_KERNELS_GEMM_MMA_SYNC_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_MMA_SYNC_LAUNCH_CUH_

#include "device/launch.cuh"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/mma_sync.cuh"
#include "kernels/residency.h"

namespace fp4aot {

template <class Config>
cudaError_t prepare_mma_sync_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(
        mma_sync_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
        std::max<int>(Config::shared_bytes(Config::kMaxWarps), shared_alone(kMultiprocessorShared)));
  });
}

// warps: at most this many a CTA; as few as need the same number of turns are used. sms: multiprocessors of the device.
template <class Config>
fp4aot_status run_mma_sync_gemm(fp4aot_gemm_params const& p, char const* op, int warps, int sms, Message* message) {
  cudaError_t const error = prepare_mma_sync_gemm<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  int64_t const steps = (p.k + Config::kStep - 1) / Config::kStep;
  int64_t const most = std::min(warps, Config::kMaxWarps);
  int64_t const turns = (steps + most - 1) / most;
  int const used = static_cast<int>((steps + turns - 1) / turns);
  // Token tiles are the grid's second dimension.
  int64_t const max_m = std::min<int64_t>(kMaxLaunchM, kMaxGridY * Config::kTokens / kScaleAtomRows * kScaleAtomRows);
  return for_each_launch<Config::kFormat>(p, max_m, [&](fp4aot_gemm_params const& part) {
    GemmArgs const args = gemm_args(part);
    int64_t const units = (part.n + kScaleAtomRows - 1) / kScaleAtomRows * (kScaleAtomRows / 8);
    dim3 const grid(static_cast<unsigned>((units + Config::kUnits - 1) / Config::kUnits),
                    static_cast<unsigned>((part.m + Config::kTokens - 1) / Config::kTokens));
    uint32_t const shared = launch_shared(part.flags, int64_t{grid.x} * grid.y, 0, sms, kMultiprocessorShared,
                                          static_cast<uint32_t>(Config::shared_bytes(used)));
    return launch({op, part.stream, part.flags, message}, reinterpret_cast<void const*>(mma_sync_gemm_kernel<Config>),
                  grid, 32 * used, args, shared);
  });
}

}  // namespace fp4aot

#endif
