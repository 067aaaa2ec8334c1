// What is used of DLPack's C exchange API (DLPack 1.3), declared here because the header that torch installs refuses to be
// read by code that keeps to torch's stable ABI.
#ifndef FP4AOT_PYTHON_DLPACK_EXCHANGE_H_
#define FP4AOT_PYTHON_DLPACK_EXCHANGE_H_

#include <cstdint>

namespace fp4aot::python {

constexpr uint32_t kDlpackMajor = 1, kDlpackMinor = 3;
constexpr char kDlpackCapsule[] = "dlpack_exchange_api";

struct DlpackTensor {
  void* data;
  int32_t device_type, device_index;
  int32_t dimensions;
  uint8_t type_code, bits;
  uint16_t lanes;
  int64_t *sizes, *strides;
  uint64_t byte_offset;
};
static_assert(sizeof(DlpackTensor) == 48);

struct DlpackExchange {
  uint32_t major, minor;
  DlpackExchange* older;
  void *allocate, *export_owned, *import_owned;                       // not used
  int (*borrow)(void* object, DlpackTensor* tensor);                  // 0, or -1 with a Python exception
  int (*current_stream)(int32_t type, int32_t index, void** stream);  // the same
};

}  // namespace fp4aot::python

#endif
