// Emulates src/cpp/device/wgmma.cuh. A product reads shared memory and writes its accumulators when its group is waited
// for, the latest moment that is allowed; operands in registers are taken when it is issued.
#ifndef FP4AOT_DEVICE_WGMMA_CUH_
#define FP4AOT_DEVICE_WGMMA_CUH_

#include "cuda_language.h"

namespace machine {

// d: this thread's part, 4 * blocks values.
template <class ToFloat>
void warpgroup_product(float* d, int blocks, WarpgroupProduct const& product, uint32_t descriptor, bool accumulate,
                       ToFloat to_float) {
  int const thread = current->thread.x % 128, warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  float a[2][16];
  for (int h = 0; h < 2; ++h) {
    for (int k = 0; k < 16; ++k) {
      a[h][k] = to_float(product.a[warp * 32 + g * 4 + k % 8 / 2][h + k / 8 * 2] >> k % 2 * 16 & 0xFFFF);
    }
  }
  uint32_t const start = (descriptor & 0x3FFF) << 4;
  for (int i = 0; i < blocks; ++i) {
    for (int e = 0; e < 2; ++e) {
      int const row = 2 * t + e;
      float sum[2] = {};
      for (int h = 0; h < 2; ++h) sum[h] = accumulate ? d[4 * i + 2 * h + e] : 0.0f;
      for (int piece = 0; piece < 2; ++piece) {  // the swizzle moves pieces of 16 bytes
        uint32_t address = start + i * 1024 + row * 128 + piece * 16;
        address ^= (address >> 7 & 7) << 4;
        uint16_t b[8];
        std::memcpy(b, shared_bytes(current->cta->rank << 24 | address, 16, 16), 16);
        for (int k = 0; k < 8; ++k) {
          float const y = to_float(b[k]);
          for (int h = 0; h < 2; ++h) sum[h] += a[h][piece * 8 + k] * y;
        }
      }
      for (int h = 0; h < 2; ++h) d[4 * i + 2 * h + e] = sum[h];
    }
  }
}

// finish(product): this thread's part of it.
template <class Finish>
void issue_product(uint32_t const (&a)[4], Finish finish) {
  Warpgroup& warpgroup = current_warpgroup();
  long const number = current->products++;
  if (number - warpgroup.first == static_cast<long>(warpgroup.products.size())) warpgroup.products.emplace_back();
  WarpgroupProduct& product = warpgroup.products.at(number - warpgroup.first);
  std::memcpy(product.a[threadIdx.x % 128], a, sizeof a);
  ++product.issued;
  current->open_products.push_back([=, &warpgroup] {
    WarpgroupProduct& taken = warpgroup.products.at(number - warpgroup.first);
    if (taken.issued != 128) fail("a warpgroup's threads issue different products");
    finish(taken);
    if (++taken.retired == 128) {
      warpgroup.products.pop_front();
      ++warpgroup.first;
    }
  });
}

}  // namespace machine

namespace fp4aot {

inline void wgmma_fence() {}

inline void wgmma_commit() {
  machine::current->product_groups.push_back(std::move(machine::current->open_products));
  machine::current->open_products.clear();
}

template <int kPending>
void wgmma_wait() {
  machine::Warpgroup& warpgroup = machine::current_warpgroup();
  machine::synchronise(warpgroup.barrier, 128);  // all have issued
  auto& groups = machine::current->product_groups;
  for (; groups.size() > kPending; groups.pop_front()) {
    for (auto const& finish : groups.front()) finish();
  }
  machine::synchronise(warpgroup.barrier, 128);  // none goes on while another still reads
}

template <int kRegisters>
void claim_registers() {}
template <int kRegisters>
void release_registers() {}

template <int kCount>
void wgmma_pin(float (&)[kCount]) {}

inline uint32_t wgmma_descriptor_swizzle128(uint32_t shared_address) {
  if (shared_address % 1024 != 0) machine::fail("misaligned operand of wgmma: %x", shared_address);
  return 1u << 16 | (shared_address & 0x3FFFF) >> 4;
}

template <int kCount, class ToFloat>
void issue_swizzled(float (&d)[kCount], uint32_t const (&a)[4], uint32_t b, int accumulate, ToFloat to_float) {
  machine::issue_product(a, [=, accumulator = d](machine::WarpgroupProduct const& taken) {
    machine::warpgroup_product(accumulator, kCount / 4, taken, b, accumulate != 0, to_float);
  });
}

template <int kCount>
void wgmma_m64k16(float (&d)[kCount], uint32_t const (&a)[4], uint32_t b, int accumulate) {
  issue_swizzled(d, a, b, accumulate, machine::bf16_to_float);
}
template <int kCount>
void wgmma_m64k16_f16(float (&d)[kCount], uint32_t const (&a)[4], uint32_t b, int accumulate) {
  issue_swizzled(d, a, b, accumulate, machine::f16_to_float);
}

inline uint32_t wgmma_descriptor_pieces(uint32_t shared_address) {
  if (shared_address % 16 != 0) machine::fail("misaligned operand of wgmma: %x", shared_address);
  return 8u << 16 | (shared_address & 0x3FFFF) >> 4;
}

template <int kCount, class ToFloat>
void issue_pieces(float (&d)[kCount], uint32_t const (&a)[4], uint32_t descriptor, ToFloat to_float) {
  machine::issue_product(a, [=, accumulator = d](machine::WarpgroupProduct const& taken) {
    int const thread = threadIdx.x % 128, warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    uint32_t const start = (descriptor & 0x3FFF) << 4;
    for (int i = 0; i < kCount; ++i) {
      int const h = i / 2 % 2, column = i / 4 * 8 + 2 * t + i % 2;
      for (int k = 0; k < 16; ++k) {
        uint32_t const x = taken.a[warp * 32 + g * 4 + k % 8 / 2][h + k / 8 * 2] >> k % 2 * 16 & 0xFFFF;
        uint32_t const address = start + column / 8 * 256 + k / 8 * 128 + column % 8 * 16 + k % 8 * 2;
        uint16_t y;
        std::memcpy(&y, machine::shared_bytes(machine::current->cta->rank << 24 | address, 2, 2), 2);
        accumulator[i] += to_float(x) * to_float(y);
      }
    }
  });
}

template <int kCount>
void wgmma_pieces_m64k16(float (&d)[kCount], uint32_t const (&a)[4], uint32_t descriptor) {
  issue_pieces(d, a, descriptor, machine::bf16_to_float);
}
template <int kCount>
void wgmma_pieces_m64k16_f16(float (&d)[kCount], uint32_t const (&a)[4], uint32_t descriptor) {
  issue_pieces(d, a, descriptor, machine::f16_to_float);
}

}  // namespace fp4aot

#endif
