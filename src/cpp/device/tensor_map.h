// Tensor maps of TMA, encoded on the host, sm_90 and later.
#ifndef FP4AOT_DEVICE_TENSOR_MAP_H_
#define FP4AOT_DEVICE_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fp4aot {

using TensorMapEncode = decltype(&cuTensorMapEncodeTiled);

// From the driver that is loaded, so that the image does not link to it. Null if the driver has none.
inline TensorMapEncode tensor_map_encode() {
  static TensorMapEncode const function = [] {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      return TensorMapEncode{};
    }
    return reinterpret_cast<TensorMapEncode>(result == cudaDriverEntryPointSuccess ? pointer : nullptr);
  }();
  return function;
}

constexpr int64_t kMaxTensorMapStride = int64_t{1} << 40;  // bytes, and less

// A matrix [rows, columns] with boxes of box_rows x box_columns; what a box has outside of the tensor is read as zero and
// not written. stride: bytes.
inline CUresult encode_rows(CUtensorMap* map, CUtensorMapDataType type, void const* data, int64_t rows, int64_t columns,
                            int64_t stride, uint32_t box_rows, uint32_t box_columns, CUtensorMapSwizzle swizzle) {
  cuuint64_t const sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  cuuint64_t const strides[1] = {static_cast<cuuint64_t>(stride)};
  cuuint32_t const box[2] = {box_columns, box_rows};
  cuuint32_t const element_strides[2] = {1, 1};
  return tensor_map_encode()(map, type, 2, const_cast<void*>(data), sizes, strides, box, element_strides,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace fp4aot

#endif
