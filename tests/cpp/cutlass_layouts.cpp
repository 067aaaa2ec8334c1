// formats.h, scale_offset against the scale layouts CUTLASS itself gives its Blackwell kernels. Host only.
// Prints one line a (configuration, shape): name rows k positions mismatches; exits 1 on any mismatch.
#include <cstdint>
#include <cstdio>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/detail/sm103_blockscaled_layout.hpp"
#include "fp4aot/formats.h"

namespace {

bool failed = false;

// SFA and SFB are the same map; `layout` is (row, k, batch) -> byte.
template <class Layout>
void compare(char const* name, Layout const& layout, int rows, int k, int vector) {
  int64_t const columns = (k + vector - 1) / vector;
  int64_t positions = 0, mismatches = 0;
  for (int row = 0; row < rows; row++) {
    for (int element = 0; element < k; element++) {
      if (element % vector != 0 && element % vector != vector - 1) continue;  // first and last element of a block
      positions++;
      mismatches +=
          static_cast<int64_t>(layout(row, element, 0)) != fp4aot::scale_offset(row, element / vector, columns);
    }
  }
  int64_t const bytes = static_cast<int64_t>(cute::cosize(cute::filter_zeros(layout)));
  mismatches += bytes != fp4aot::swizzled_scale_bytes(rows, columns);
  std::printf("%s %d %d %lld %lld\n", name, rows, k, static_cast<long long>(positions),
              static_cast<long long>(mismatches));
  failed |= mismatches != 0;
}

template <class Config>
void compare_config(char const* name_a, char const* name_b, int vector) {
  int const shapes[][2] = {{1, 64},    {1, 7168},   {127, 128},  {128, 64},   {128, 768},
                           {129, 192}, {130, 1536}, {256, 4096}, {384, 1024}, {1000, 7168}};
  for (auto const& shape : shapes) {
    auto const problem = cute::make_shape(shape[0], shape[0], shape[1], 1);
    compare(name_a, Config::tile_atom_to_shape_SFA(problem), shape[0], shape[1], vector);
    compare(name_b, Config::tile_atom_to_shape_SFB(problem), shape[0], shape[1], vector);
  }
}

}  // namespace

int main() {
  compare_config<cutlass::detail::Sm1xxBlockScaledConfig<16>>("sm1xx_16_a", "sm1xx_16_b", 16);
  compare_config<cutlass::detail::Sm1xxBlockScaledConfig<32>>("sm1xx_32_a", "sm1xx_32_b", 32);
  compare_config<cutlass::detail::Sm103BlockScaledConfig<16>>("sm103_16_a", "sm103_16_b", 16);
  compare_config<cutlass::detail::Sm103BlockScaledConfig<32>>("sm103_32_a", "sm103_32_b", 32);
  return failed ? 1 : 0;
}
