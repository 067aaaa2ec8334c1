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
  bool swizzle128;    // 16-byte pieces within 1024 bytes: address bits 9, 8, 7 are added to bits 6, 5, 4
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

inline int64_t swizzled(TensorMap const& map, int64_t address) {
  return map.swizzle128 ? address ^ (address >> 7 & 7) << 4 : address;
}

// To the same place in every CTA of the cluster whose bit is set in `ctas`.
inline void start_bulk_load(uint32_t destination, CUtensorMap const* encoded, int64_t x, int64_t y, int64_t z,
                            uint32_t barrier_address, uint32_t ctas) {
  TensorMap map;
  std::memcpy(&map, encoded, sizeof map);
  int64_t const width = map.box[0] * map.element, bytes = width * map.box[1] * map.box[2];
  for (uint32_t rank = 0; ctas >> rank != 0; ++rank) {
    if ((ctas >> rank & 1) == 0) continue;
    uint32_t const there = (destination & 0xFFFFFF) | rank << 24;
    uint8_t* const shared = shared_bytes(there, static_cast<uint32_t>(bytes), 128);
    Mbarrier* const barrier = &initialised_mbarrier((barrier_address & 0xFFFFFF) | rank << 24);
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
            shared[swizzled(map, there + offset) - there] = value;
          }
        }
      }
      barrier->bytes -= bytes;
      barrier->complete_if_done();
    });
  }
}

inline uint32_t own_rank() { return 1u << current->cta->rank; }

// The shared memory is read when the thread waits for the store, the latest moment that is allowed.
inline void start_bulk_store(CUtensorMap const* encoded, int64_t x, int64_t y, uint32_t source) {
  TensorMap map;
  std::memcpy(&map, encoded, sizeof map);
  int64_t const width = map.box[0] * map.element;
  uint8_t const* const shared = shared_bytes(source, static_cast<uint32_t>(width * map.box[1]), 128);
  current->open_stores.push_back([=] {
    int64_t offset = 0;
    for (int64_t j = y; j < y + map.box[1]; ++j) {
      for (int64_t i = x * map.element; i < x * map.element + width; ++i, ++offset) {
        if (i >= map.size[0] * map.element || j >= map.size[1]) continue;
        const_cast<uint8_t*>(map.base)[i + j * map.stride[0]] = shared[swizzled(map, source + offset) - source];
      }
    }
  });
}

// Lands after so many chances to do so.
inline void fly(uint32_t chances, std::function<void()> const& land) {
  flying.push_back([=] { chances > 0 ? fly(chances - 1, land) : land(); });
}

}  // namespace machine

namespace fp4aot {

inline void bulk_load(uint32_t destination, void const* source, uint32_t bytes, uint32_t barrier_address) {
  uint8_t* const shared = machine::shared_bytes(destination, bytes, 16);
  auto const* const from = static_cast<uint8_t const*>(source);
  machine::check_operand(from, bytes);
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) machine::fail("misaligned bulk copy");
  machine::Mbarrier* const barrier = &machine::initialised_mbarrier(barrier_address);
  std::memset(shared, 0xEE, bytes);  // it may land at once, or late
  machine::fly(machine::random_below(2) * 400, [=] {
    std::memcpy(shared, from, bytes);
    barrier->bytes -= bytes;
    barrier->complete_if_done();
  });
}

inline void tma_load_2d(uint32_t destination, CUtensorMap const* map, int32_t column, int32_t row, uint32_t barrier) {
  machine::start_bulk_load(destination, map, column, row, 0, barrier, machine::own_rank());
}

inline void tma_load_3d(uint32_t destination, CUtensorMap const* map, int32_t x, int32_t y, int32_t z,
                        uint32_t barrier) {
  machine::start_bulk_load(destination, map, x, y, z, barrier, machine::own_rank());
}

inline void tma_load_2d_multicast(uint32_t destination, CUtensorMap const* map, int32_t column, int32_t row,
                                  uint32_t barrier, uint32_t ctas) {
  machine::start_bulk_load(destination, map, column, row, 0, barrier, ctas);
}

inline void tma_store_2d(CUtensorMap const* map, int32_t column, int32_t row, uint32_t source) {
  machine::start_bulk_store(map, column, row, source);
}

inline void tma_store_commit() {}

inline void tma_store_wait_read() {
  auto& stores = machine::current->open_stores;
  for (; !stores.empty(); stores.pop_front()) stores.front()();
}

inline void tma_prefetch_2d(CUtensorMap const*, int32_t, int32_t) {}
inline void tma_prefetch_3d(CUtensorMap const*, int32_t, int32_t, int32_t) {}
inline void tma_prefetch_map(CUtensorMap const*) {}

}  // namespace fp4aot

#endif
