// Reads commands from standard input, one a line, and prints one number a line:
//   encode FORMAT ROUNDING SATFINITE RELU BITS   code of the float with these bits (hex); formats e2m1 e4m3 e5m2 bf16
//                                                fp16 tf32 ue8m0, roundings rn rz rp rna
//   decode FORMAT CODE                           bits (hex) of the double
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "units/convert.h"

using namespace ptxsim;

namespace {

FloatFormat const* format_of(std::string const& name) {
  if (name == "e2m1") return &kE2m1;
  if (name == "e4m3") return &kE4m3;
  if (name == "e5m2") return &kE5m2;
  if (name == "bf16") return &kBf16;
  if (name == "fp16") return &kFp16;
  return nullptr;
}

RoundMode rounding_of(std::string const& name) {
  return name == "rz"    ? RoundMode::kZero
         : name == "rp"  ? RoundMode::kUp
         : name == "rna" ? RoundMode::kNearestAway
                         : RoundMode::kNearestEven;
}

double quick(std::string const& name, uint32_t code) {  // the tables
  if (name == "e2m1") return e2m1_value(code);
  if (name == "e4m3") return e4m3_value(code);
  if (name == "e5m2") return e5m2_value(code);
  if (name == "ue8m0") return ue8m0_value(code);
  if (name == "fp16") return fp16_value(code);
  return bf16_value(code);
}

}  // namespace

int main() {
  char verb[16], name[16], rounding[16];
  while (std::scanf("%15s %15s", verb, name) == 2) {
    uint32_t bits;
    if (std::strcmp(verb, "encode") == 0) {
      int satfinite, relu;
      if (std::scanf("%15s %d %d %" SCNx32, rounding, &satfinite, &relu, &bits) != 4) return 1;
      double const value = bits_float(bits);
      uint32_t code;
      if (std::strcmp(name, "ue8m0") == 0)
        code = encode_ue8m0(value, rounding_of(rounding), satfinite != 0);
      else if (std::strcmp(name, "tf32") == 0)
        code = encode_tf32(value, rounding_of(rounding), satfinite != 0, relu != 0);
      else
        code = encode(*format_of(name), value, rounding_of(rounding), satfinite != 0, relu != 0);
      std::printf("%" PRIu32 "\n", code);
    } else {
      if (std::scanf("%" SCNx32, &bits) != 1) return 1;
      bool const scale = std::strcmp(name, "ue8m0") == 0;
      double const value = scale ? decode_ue8m0(static_cast<uint8_t>(bits)) : decode(*format_of(name), bits);
      double const table = quick(name, bits);
      if (value == value ? value != table : table == table) return 2;
      uint64_t word;
      std::memcpy(&word, &value, 8);
      std::printf("%" PRIx64 "\n", word);
    }
  }
  return 0;
}
