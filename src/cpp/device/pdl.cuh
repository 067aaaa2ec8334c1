// Programmatic dependent launch, sm_90 and later. Launched with programmatic stream serialization a kernel may start
// before its predecessor in the stream has ended; launched without, both instructions do nothing.
#ifndef FP4AOT_DEVICE_PDL_CUH_
#define FP4AOT_DEVICE_PDL_CUH_

namespace fp4aot {

// Waits until the preceding kernels have ended and their memory is visible. Every thread calls it before its first
// access to global memory, reads and writes alike: the predecessor may still read what this kernel overwrites.
// No CTA may end without it, since the wait of the next kernel covers this one only, and the one before through it.
__device__ __forceinline__ void pdl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the next kernel start as soon as all CTAs have called this or ended. It says nothing about this kernel's data.
__device__ __forceinline__ void pdl_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace fp4aot

#endif
