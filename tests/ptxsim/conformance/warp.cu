// Instructions of a warp and of a cluster.
#include "program.h"

namespace {

__global__ void shuffle(uint32_t* out) {
  uint32_t const lane = threadIdx.x, value = lane * 3 + 100;
  unsigned n = 0;
  auto put = [&](uint32_t word) { out[n++ * 32 + lane] = word; };
#define SHUFFLE(mode, amount, clamp)                                                                    \
  {                                                                                                     \
    uint32_t d, inside;                                                                                 \
    asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, -1; selp.u32 %1, 1, 0, p; }" \
                 : "=r"(d), "=r"(inside)                                                                \
                 : "r"(value), "r"(amount), "r"(clamp));                                                \
    put(d);                                                                                             \
    put(inside);                                                                                        \
  }
  SHUFFLE("up", 3, 0)
  SHUFFLE("down", 5, 31)
  SHUFFLE("bfly", 17, 31)
  SHUFFLE("idx", lane * 7, 31)
  SHUFFLE("up", 2, 24 << 8)  // segments of 8 lanes
  SHUFFLE("down", 3, 24 << 8 | 7)
  SHUFFLE("bfly", 9, 16 << 8 | 15)
  SHUFFLE("idx", lane + 5, 24 << 8 | 7)
#undef SHUFFLE
}

__global__ void votes(uint32_t* out) {
  uint32_t const lane = threadIdx.x;
  unsigned n = 0;
  auto put = [&](uint32_t word) { out[n++ * 32 + lane] = word; };
  put(__ballot_sync(~0u, lane % 3 == 1));
  put(__any_sync(~0u, lane == 31) | __all_sync(~0u, lane < 31) << 1);
  put(__match_any_sync(~0u, lane / 5 * 7));
  put(__reduce_add_sync(~0u, lane * lane));
  put(__reduce_min_sync(~0u, static_cast<int>(lane) - 9));
  put(__reduce_max_sync(~0u, lane * 2654435761u));
  put(__reduce_xor_sync(~0u, 1u << lane | lane));
  if (lane % 2 == 1)
    put(__ballot_sync(0xAAAAAAAAu, lane > 12));
  else
    put(__ballot_sync(0x55555555u, lane > 12));
  uint32_t leader, is_leader;
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(leader), "=r"(is_leader));
  put(leader);
  put(is_leader);
}

// Where a CTA is in its cluster, and a word of each other CTA's shared memory.
__global__ void __cluster_dims__(2, 2, 1) cluster(uint32_t* out) {
  __shared__ uint32_t word;
  uint32_t const cta = blockIdx.y * gridDim.x + blockIdx.x;
  word = cta * 1000 + 7;
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  uint32_t rank, size, x, y, cluster_x, cluster_y;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
  asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(y));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster_x));
  asm volatile("mov.u32 %0, %%clusterid.y;" : "=r"(cluster_y));
  uint32_t* const row = out + cta * 12;
  row[0] = rank, row[1] = size, row[2] = x, row[3] = y, row[4] = cluster_x, row[5] = cluster_y;
  uint32_t const own = static_cast<uint32_t>(__cvta_generic_to_shared(&word));
  for (uint32_t other = 0; other < 4; ++other) {
    uint32_t address, value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(other));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    row[6 + other] = value;
  }
  uint32_t self;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(self) : "r"(own), "r"(rank));
  row[10] = self - own;  // the window of a CTA begins at rank << 24
  row[11] = own & 127;
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Phases of an mbarrier as a lone thread sees them.
__global__ void mbarrier(uint32_t* out) {
  __shared__ uint64_t object;
  uint32_t const address = static_cast<uint32_t>(__cvta_generic_to_shared(&object));
  unsigned n = 0;
  auto test = [&](uint32_t parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(address), "r"(parity)
                 : "memory");
    out[n++] = done;
  };
  auto both = [&] {
    test(0);
    test(1);
  };
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(address) : "memory");
  both();  // the phase before the first counts as complete
  for (int i = 0; i < 5; ++i) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(address) : "memory");
    both();
  }
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 32; }" ::"r"(address) : "memory");
  both();  // two arrivals, 32 bytes missing
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 32;" ::"r"(address) : "memory");
  both();
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address) : "memory");
}

}  // namespace

void warp_cases() {
  run("shuffle", shuffle, 1, 32, 16 * 32);
  run("votes", votes, 1, 32, 10 * 32);
  run("cluster", cluster, dim3(4, 4), 1, 16 * 12);
  run("mbarrier", mbarrier, 1, 1, 16);
}
