// Emulates src/cpp/device/tma.cuh. A CUtensorMap holds a machine::TensorMap here.
#ifndef FP4AOT_DEVICE_TMA_CUH_
#define FP4AOT_DEVICE_TMA_CUH_

#include "cuda_language.h"

namespace machine {

struct TensorMap {
  uint8_t const* base;
  int64_t element;    // bytes
  int64_t size[3];    // elements; x first
  int64_t stride[2];  // bytes, of y and z
  int64_t box[3];     // elements
  bool swizzle64;     // 16-byte pieces within 512 bytes: address bits 8, 7 are added to bits 5, 4
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

inline void start_bulk_copy(uint32_t destination, CUtensorMap const* encoded, int64_t x, int64_t y, int64_t z,
                            uint32_t barrier_address) {
  TensorMap map;
  std::memcpy(&map, encoded, sizeof map);
  int64_t const width = map.box[0] * map.element, bytes = width * map.box[1] * map.box[2];
  uint8_t* const shared = shared_bytes(destination, static_cast<uint32_t>(bytes), 128);
  Mbarrier* const barrier = &initialised_mbarrier(barrier_address);
  std::memset(shared, 0xEE, bytes);  // it may land at once, or late
  flying.push_back([=] {
    int64_t offset = 0;
    for (int64_t k = z; k < z + map.box[2]; ++k) {
      for (int64_t j = y; j < y + map.box[1]; ++j) {
        for (int64_t i = x * map.element; i < x * map.element + width; ++i, ++offset) {
          uint8_t value = 0;
          if (i < map.size[0] * map.element && j < map.size[1] && k < map.size[2]) {
            uint8_t const* const source = map.base + i + j * map.stride[0] + k * map.stride[1];
            if (i % 16 == 0) check_operand(source, 1);
            value = *source;
          }
          int64_t const address = destination + offset;
          shared[map.swizzle64 ? (address ^ (address >> 7 & 3) << 4) - destination : offset] = value;
        }
      }
    }
    barrier->bytes -= bytes;
    barrier->complete_if_done();
  });
}

}  // namespace machine

namespace fp4aot {

inline void tma_load_2d(uint32_t destination, CUtensorMap const* map, int32_t column, int32_t row, uint32_t barrier) {
  machine::start_bulk_copy(destination, map, column, row, 0, barrier);
}

inline void tma_load_3d(uint32_t destination, CUtensorMap const* map, int32_t x, int32_t y, int32_t z,
                        uint32_t barrier) {
  machine::start_bulk_copy(destination, map, x, y, z, barrier);
}

inline void tma_prefetch_map(CUtensorMap const*) {}

}  // namespace fp4aot

#endif
