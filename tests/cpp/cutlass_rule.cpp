// The rule of an image's CUTLASS tactics, as a library: POLICY is the image's policy.h.
#include POLICY

using Nvfp4 = fp4aot::CutlassRule<fp4aot::GemmPolicy, fp4aot::Format::kNvfp4>;
using Mxfp4 = fp4aot::CutlassRule<fp4aot::GemmPolicy, fp4aot::Format::kMxfp4>;

namespace {

// sizes: m, n, k, d_stride, d's address, d_dtype, a_stride, b_stride
fp4aot_gemm_params params(int64_t const* sizes) {
  fp4aot_gemm_params p = {};
  p.m = sizes[0], p.n = sizes[1], p.k = sizes[2], p.d_stride = sizes[3];
  p.a_stride = sizes[6], p.b_stride = sizes[7];
  p.d = reinterpret_cast<void*>(sizes[4]);
  p.d_dtype = static_cast<int32_t>(sizes[5]);
  return p;
}

}  // namespace

extern "C" {

int tactic_count() { return Nvfp4::kTacticCount; }
int default_number(int mxfp4, int64_t const* sizes) {
  auto const p = params(sizes);
  return mxfp4 ? Mxfp4::default_number(p, fp4aot::GemmPolicy::kSms)
               : Nvfp4::default_number(p, fp4aot::GemmPolicy::kSms);
}
int valid(int mxfp4, int64_t const* sizes, int number) {
  auto const p = params(sizes);
  return mxfp4 ? Mxfp4::valid(p, number) : Nvfp4::valid(p, number);
}
// What is too large, and the most it may be; null if nothing is.
char const* excess(int64_t const* sizes, int64_t* most) {
  auto const found = fp4aot::cutlass_excess(params(sizes));
  *most = found.most;
  return found.name;
}
int slices(int number) { return Nvfp4::tactic(number).slices; }
char const* tile_name(int number) { return fp4aot::GemmPolicy::kTiles[Nvfp4::tactic(number).kernel].name; }
int64_t max_rows(int number, int64_t k, int of_b) {
  return fp4aot::cutlass_max_rows(fp4aot::GemmPolicy::kTiles[Nvfp4::tactic(number).kernel], k, of_b != 0);
}
}
