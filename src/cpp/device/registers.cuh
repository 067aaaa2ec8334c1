// Registers moved between the warpgroups of a CTA, sm_90a, sm_100a, sm_120a and their like.
#ifndef FP4AOT_DEVICE_REGISTERS_CUH_
#define FP4AOT_DEVICE_REGISTERS_CUH_

namespace fp4aot {

// Each warpgroup of a kernel calls one of these, in a branch of its own: registers a thread, a multiple of 8 in 24..256.
// claim waits until the other warpgroups have released enough of what the launch gave the CTA.
template <int kRegisters>
__device__ __forceinline__ void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace fp4aot

#endif
