// Which function decodes an opcode.
#include <unordered_map>

#include "isa/tensor.h"

namespace ptxsim {

Handler decode_arithmetic(Decoder& d);
Handler decode_two_floats(Decoder& d);
Handler decode_carry(Decoder& d);
Handler decode_logic(Decoder& d);
Handler decode_setp(Decoder& d);
Handler decode_selp(Decoder& d);
Handler decode_slct(Decoder& d);
Handler decode_testp(Decoder& d);
Handler decode_mov(Decoder& d);
Handler decode_cvta(Decoder& d);
Handler decode_isspacep(Decoder& d);
Handler decode_mapa(Decoder& d);
Handler decode_getctarank(Decoder& d);
Handler decode_cvt(Decoder& d);
Handler decode_ld(Decoder& d);
Handler decode_st(Decoder& d);
Handler decode_prefetch(Decoder& d);
Handler decode_createpolicy(Decoder& d);
Handler decode_discard(Decoder& d);
Handler decode_atom(Decoder& d);
Handler decode_bra(Decoder& d);
Handler decode_brx(Decoder& d);
Handler decode_exit(Decoder& d);
Handler decode_trap(Decoder& d);
Handler decode_nothing(Decoder& d);
Handler decode_nanosleep(Decoder& d);
Handler decode_setmaxnreg(Decoder& d);
Handler decode_griddepcontrol(Decoder& d);
Handler decode_vote(Decoder& d);
Handler decode_activemask(Decoder& d);
Handler decode_match(Decoder& d);
Handler decode_shfl(Decoder& d);
Handler decode_redux(Decoder& d);
Handler decode_elect(Decoder& d);
Handler decode_barrier(Decoder& d);
Handler decode_fence(Decoder& d);
Handler decode_membar(Decoder& d);
Handler decode_mbarrier(Decoder& d);
Handler decode_cp(Decoder& d);
Handler decode_launch_control(Decoder& d);

namespace {

Handler arithmetic(Decoder& d) {
  if (d.has("cc")) return decode_carry(d);
  return d.has("f32x2") ? decode_two_floats(d) : decode_arithmetic(d);
}

}  // namespace

Opcode const* find_opcode(std::string_view name) {
  static std::unordered_map<std::string_view, Opcode> const kOpcodes = [] {
    std::unordered_map<std::string_view, Opcode> table;
    auto add = [&](Handler (*decode)(Decoder&), std::initializer_list<std::string_view> names) {
      for (std::string_view n : names) table[n] = {n, decode};
    };
    add(arithmetic, {"add", "sub",   "mul", "mad",  "fma",   "div", "rem", "min", "max", "neg",  "abs",
                     "sad", "mul24", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign"});
    add(decode_carry, {"addc", "subc", "madc"});
    add(decode_logic, {"and", "or", "xor", "not", "cnot", "shl", "shr", "shf", "lop3", "prmt", "bfe", "bfi", "brev",
                       "popc", "clz", "bfind", "szext", "bmsk"});
    add(decode_setp, {"setp", "set"});
    add(decode_selp, {"selp"});
    add(decode_slct, {"slct"});
    add(decode_testp, {"testp"});
    add(decode_mov, {"mov"});
    add(decode_cvta, {"cvta"});
    add(decode_isspacep, {"isspacep"});
    add(decode_mapa, {"mapa"});
    add(decode_getctarank, {"getctarank"});
    add(decode_cvt, {"cvt"});
    add(decode_ld, {"ld", "ldu"});
    add(decode_st, {"st"});
    add(decode_prefetch, {"prefetch", "prefetchu"});
    add(decode_createpolicy, {"createpolicy"});
    add(decode_discard, {"discard"});
    add(decode_atom, {"atom", "red"});
    add(decode_bra, {"bra"});
    add(decode_brx, {"brx"});
    add(decode_exit, {"exit", "ret"});
    add(decode_trap, {"trap"});
    add(decode_nothing, {"branchtargets", "pmevent"});
    add(decode_nanosleep, {"nanosleep"});
    add(decode_setmaxnreg, {"setmaxnreg"});
    add(decode_griddepcontrol, {"griddepcontrol"});
    add(decode_vote, {"vote"});
    add(decode_activemask, {"activemask"});
    add(decode_match, {"match"});
    add(decode_shfl, {"shfl"});
    add(decode_redux, {"redux"});
    add(decode_elect, {"elect"});
    add(decode_barrier, {"bar", "barrier"});
    add(decode_fence, {"fence"});
    add(decode_membar, {"membar"});
    add(decode_mbarrier, {"mbarrier"});
    add(decode_cp, {"cp"});
    add(decode_launch_control, {"clusterlaunchcontrol"});
    add(decode_mma, {"mma"});
    add(decode_ldmatrix, {"ldmatrix"});
    add(decode_stmatrix, {"stmatrix"});
    add(decode_wgmma, {"wgmma"});
    add(decode_tcgen05, {"tcgen05"});
    add(decode_tensormap, {"tensormap"});
    return table;
  }();
  auto found = kOpcodes.find(name);
  return found == kOpcodes.end() ? nullptr : &found->second;
}

}  // namespace ptxsim
