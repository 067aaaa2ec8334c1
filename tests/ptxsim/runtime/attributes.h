// Attributes of the virtual GPU. The runtime (cudaDeviceAttr) and the driver (CUdevice_attribute) number them alike.
#ifndef PTXSIM_RUNTIME_ATTRIBUTES_H_
#define PTXSIM_RUNTIME_ATTRIBUTES_H_

namespace ptxsim {

// False: an attribute without a value here.
bool device_attribute(int attribute, int* value);

// What cudaDriverGetVersion and cudaRuntimeGetVersion say: the headers' version, so that no image finds it too old.
int driver_version();

}  // namespace ptxsim

#endif
