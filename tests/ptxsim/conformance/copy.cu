// Copies: tensor maps with every swizzle, boxes beyond the tensor, bulk copies, cp.async.
#include <cuda.h>

#include "program.h"

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
  return reinterpret_cast<Encode>(function);
}

constexpr unsigned kColumns = 160, kRows = 12, kPlanes = 3;  // bytes; of the tensor
constexpr unsigned kTileBytes = 4096;

CUtensorMap bytes_map(uint8_t* data, unsigned box_columns, unsigned box_rows, CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  cuuint64_t const sizes[3] = {kColumns - 3, kRows, kPlanes}, strides[2] = {kColumns, kColumns * kRows};
  cuuint32_t const box[3] = {box_columns, box_rows, 2}, steps[3] = {1, 1, 1};
  CUresult const result =
      encode()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeTiled gave %d\n", static_cast<int>(result));
    std::exit(1);
  }
  return map;
}

// Loads a box to byte `place` of a tile that was 0xEE and writes the tile out.
__global__ void tensor_load(uint32_t* out, __grid_constant__ CUtensorMap const map, int x, int y, int z, unsigned place,
                            unsigned bytes) {
  __shared__ __align__(1024) uint8_t tile[kTileBytes];
  __shared__ uint64_t full;
  uint32_t const barrier = static_cast<uint32_t>(__cvta_generic_to_shared(&full));
  for (unsigned i = threadIdx.x; i < kTileBytes / 4; i += 32) reinterpret_cast<uint32_t*>(tile)[i] = 0xEEEEEEEEu;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + place),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
  }
  uint32_t done = 0;
  while (done == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier)
                 : "memory");
  }
  for (unsigned i = threadIdx.x; i < kTileBytes / 4; i += 32) out[i] = reinterpret_cast<uint32_t*>(tile)[i];
}

__global__ void tensor_store(__grid_constant__ CUtensorMap const map, int x, int y, int z) {
  __shared__ __align__(1024) uint8_t tile[kTileBytes];
  for (unsigned i = threadIdx.x; i < kTileBytes; i += 32) tile[i] = static_cast<uint8_t>(i * 7 + i / 256);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
                 "r"(y), "r"(z), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(tile)))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// cp.async with fewer bytes read than written: the rest is zero.
__global__ void cp_async(uint32_t* out, uint8_t const* data) {
  __shared__ __align__(16) uint8_t tile[32 * 16];
  uint32_t const address = static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + threadIdx.x * 16;
  for (unsigned i = 0; i < 4; ++i) reinterpret_cast<uint32_t*>(tile + threadIdx.x * 16)[i] = 0xEEEEEEEEu;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(data + threadIdx.x * 16),
               "r"(threadIdx.x % 17)
               : "memory");
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
  for (unsigned i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = reinterpret_cast<uint32_t*>(tile + threadIdx.x * 16)[i];
}

std::vector<uint8_t> numbered(size_t size) {
  std::vector<uint8_t> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = static_cast<uint8_t>(i * 5 + i / 97 + 1);
  return values;
}

}  // namespace

void copy_cases() {
  DeviceArray<uint8_t> data(numbered(size_t{kColumns} * kRows * kPlanes));
  struct Swizzle {
    char const* name;
    CUtensorMapSwizzle mode;
    unsigned columns;
  };
  for (Swizzle const& s :
       {Swizzle{"none", CU_TENSOR_MAP_SWIZZLE_NONE, 48}, Swizzle{"32", CU_TENSOR_MAP_SWIZZLE_32B, 32},
        Swizzle{"64", CU_TENSOR_MAP_SWIZZLE_64B, 64}, Swizzle{"128", CU_TENSOR_MAP_SWIZZLE_128B, 128}}) {
    unsigned const rows = 10, bytes = s.columns * rows * 2;
    CUtensorMap const map = bytes_map(data.data(), s.columns, rows, s.mode);
    struct Place {
      int x, y, z;
      unsigned place;
    };
    // Inside; beyond the far end and the near end; at places that are no multiple of the swizzle's period. On an H200 the
    // first coordinate must be a multiple of 16 bytes: another is an illegal instruction.
    for (Place const& p : {Place{16, 1, 0, 0}, Place{96, 7, 2, 0}, Place{-16, -3, -1, 0}, Place{-32, -2, 1, 128},
                           Place{16, 1, 0, 640}, Place{400, 0, 0, 256}}) {
      char name[64];
      std::snprintf(name, sizeof name, "tensor_load_%s_%d_%d_%d_at_%u", s.name, p.x, p.y, p.z, p.place);
      run(name, tensor_load, 1, 32, kTileBytes / 4, map, p.x, p.y, p.z, p.place, bytes);
    }
    for (Place const& p : {Place{16, 1, 0, 0}, Place{112, 7, 2, 0}}) {
      DeviceArray<uint8_t> target(std::vector<uint8_t>(size_t{kColumns} * kRows * kPlanes, 0xEE));
      tensor_store<<<1, 32>>>(bytes_map(target.data(), s.columns, rows, s.mode), p.x, p.y, p.z);
      check(cudaDeviceSynchronize(), "tensor_store");
      std::vector<uint8_t> const stored = target.values();
      std::vector<uint32_t> words(stored.begin(), stored.end());
      char name[64];
      std::snprintf(name, sizeof name, "tensor_store_%s_%d_%d_%d", s.name, p.x, p.y, p.z);
      print(name, words);
    }
  }
  run("cp_async", cp_async, 1, 32, 128, static_cast<uint8_t const*>(data.data()));
}
