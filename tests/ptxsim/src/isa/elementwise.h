// Handlers of instructions that compute each lane from the same lane of their sources.
#ifndef PTXSIM_ISA_ELEMENTWISE_H_
#define PTXSIM_ISA_ELEMENTWISE_H_

#include <tuple>
#include <type_traits>
#include <utility>

#include "machine.h"

namespace ptxsim {

// Op::apply(A...) -> R, with operands 1.. as A and operand 0 as R. R of a narrower type than its register is extended
// (signed types by their sign).
template <class Op, class R, class... A>
struct Elementwise {
  static Step run(Warp& w, Instruction const& in) { return run(w, in, std::index_sequence_for<A...>()); }

 private:
  template <size_t... I>
  static Step run(Warp& w, Instruction const& in, std::index_sequence<I...>) {
    std::tuple<Lanes<A>...> scratch;
    std::tuple<A const*...> from{w.lanes<A>(in.operands[I + 1], std::get<I>(scratch))...};
    Operand const& to = in.operands[0];
    if (to.width == sizeof(R) && w.active() == kAllLanes && to.kind == Operand::Kind::kRegister) {
      R* out = reinterpret_cast<R*>(w.registers.data() + to.slot);
#pragma GCC ivdep
      for (int i = 0; i < kWarpSize; ++i) out[i] = Op::apply(std::get<I>(from)[i]...);
      w.poison_masks[to.poison] = 0;
      return Step::kNext;
    }
    Lanes<R> out;
    for (int i = 0; i < kWarpSize; ++i) out.v[i] = Op::apply(std::get<I>(from)[i]...);
    store(w, to, out);
    return Step::kNext;
  }

  static void store(Warp& w, Operand const& to, Lanes<R>& out) {
    if constexpr (std::is_floating_point_v<R>) {
      using Bits = std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>;
      w.store_lanes<Bits>(to, reinterpret_cast<Bits const*>(out.v));
    } else {
      w.store_lanes<R>(to, out.v);
    }
  }
};

// For a decode function: the handler, with propagation of poison, the class it counts as, and immediates of the right
// width.
template <class Op, class R, class... A>
Handler elementwise(Decoder& d, Class category) {
  constexpr int kSources = sizeof...(A);
  if (!d.operands(kSources + 1, kSources + 1)) return nullptr;
  constexpr uint8_t kWidths[] = {sizeof(A)...};
  for (int i = 0; i < kSources; ++i) d.constant_width(i + 1, kWidths[i]);
  d.propagate();
  d.instruction().category = category;
  return Elementwise<Op, R, A...>::run;
}

// Bit i of the result is flags[i] (0 or 1).
inline uint32_t pack_mask(uint8_t const flags[kWarpSize]) {
  uint32_t mask = 0;
  for (int k = 0; k < 4; ++k) {
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * k, 8);
    mask |= static_cast<uint32_t>((eight * 0x0102040810204080u) >> 56) << (8 * k);
  }
  return mask;
}

// By the instruction's type: T is replaced by the matching C++ type.
template <template <class> class Op>
Handler integer_binary(Decoder& d, Type type, Class category = Class::kInteger) {
  bool is_signed = type.letter == 's';
  switch (type.bytes) {
    case 2:
      return is_signed ? elementwise<Op<int16_t>, int16_t, int16_t, int16_t>(d, category)
                       : elementwise<Op<uint16_t>, uint16_t, uint16_t, uint16_t>(d, category);
    case 4:
      return is_signed ? elementwise<Op<int32_t>, int32_t, int32_t, int32_t>(d, category)
                       : elementwise<Op<uint32_t>, uint32_t, uint32_t, uint32_t>(d, category);
    case 8:
      return is_signed ? elementwise<Op<int64_t>, int64_t, int64_t, int64_t>(d, category)
                       : elementwise<Op<uint64_t>, uint64_t, uint64_t, uint64_t>(d, category);
    default:
      return d.fail("integers of this size");
  }
}

// Families that share opcodes (add, min, ...) are told apart by type.
Handler integer_arithmetic(Decoder& d, std::string_view op, Type type);
Handler float_arithmetic(Decoder& d, std::string_view op, Type type);  // f32 and f64
Handler half_arithmetic(Decoder& d, std::string_view op, Type type);   // f16, bf16 and their pairs

}  // namespace ptxsim

#endif
