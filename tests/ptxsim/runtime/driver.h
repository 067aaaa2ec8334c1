// The stand-in for libcuda.so.1.
#ifndef PTXSIM_RUNTIME_DRIVER_H_
#define PTXSIM_RUNTIME_DRIVER_H_

namespace ptxsim {

// The function of this name ("cuTensorMapEncodeTiled"); null if the stand-in has none.
void* driver_function(char const* name);

}  // namespace ptxsim

#endif
