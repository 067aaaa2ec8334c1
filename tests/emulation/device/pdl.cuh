// Stands for src/cpp/device/pdl.cuh: kernels run one after another here.
#ifndef FP4AOT_DEVICE_PDL_CUH_
#define FP4AOT_DEVICE_PDL_CUH_

namespace fp4aot {

inline void pdl_wait() {}
inline void pdl_launch_dependents() {}

}  // namespace fp4aot

#endif
