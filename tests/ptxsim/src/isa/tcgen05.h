// What the files of tcgen05 share: tensor memory with its checks of allocation, order and undefined words.
#ifndef PTXSIM_ISA_TCGEN05_H_
#define PTXSIM_ISA_TCGEN05_H_

#include <cstdint>
#include <string>

#include "isa/tensor.h"
#include "isa/tensor_state.h"

namespace ptxsim {

// Takes .cta_group::1 or ::2; 0 if there is none.
int take_cta_group(Decoder& d);
Handler decode_tcgen05_ld(Decoder& d);
Handler decode_tcgen05_st(Decoder& d);
Handler decode_tcgen05_cp(Decoder& d);
Handler decode_tcgen05_mma(Decoder& d);

// All tcgen05 instructions of a kernel have one cta_group, and a pair needs its peer.
void check_cta_group(Warp& w, Instruction const& in, int cta_group);
// CTAs that an instruction works on: its own, or its pair with the even rank first.
int ctas_of_group(Warp& w, int cta_group, Cta* ctas[2]);
// Operations of a CTA's tensor core complete in the order of their issue.
inline uint64_t tensor_core_chain(Cta& cta) { return reinterpret_cast<uintptr_t>(&cta.agent_time); }

// Accesses to words of a CTA's tensor memory: columns first .. first + count - 1 of a lane. Report what is out of an
// allocation (once, through ok), and what is not ordered.
class TmemCheck {
 public:
  // An operation of the tensor core, that knows what stamp says.
  TmemCheck(Warp& w, Instruction const& in, int lane, Cta& cta, Stamp const& stamp);
  // A warp's own load or store.
  TmemCheck(Warp& w, Instruction const& in, Cta& cta);

  // Every column lies in an allocation; false with a finding.
  bool range(int column, int count);
  // read: whether the word's value is defined (a word that was never written at all is a finding if must_be_written).
  bool read(int lane, int column, bool must_be_written);
  void write(int lane, int column);

 private:
  void report(char const* check, std::string message);
  void report_unwritten(int lane, int column);
  void report_race(char const* does, int lane, int column);
  bool behind(uint32_t party_plus_1, uint32_t time) const {
    return party_plus_1 != 0 && party_plus_1 - 1 != me_ && clock_[party_plus_1 - 1] < time;
  }

  Warp& w_;
  Instruction const& in_;
  int lane_;
  Cta& cta_;
  TensorMemory& tensor_;
  Clock const& clock_;
  uint32_t me_, read_time_, write_time_;
  bool reported_ = false;
};

inline bool TmemCheck::read(int lane, int column, bool must_be_written) {
  size_t const index = static_cast<size_t>(tmem_index(lane, column));
  TensorMemory::Word& word = tensor_.known[index];
  uint8_t const written = tensor_.written[index];
  if (written == 0) {
    if (must_be_written) report_unwritten(lane, column);
  } else if (behind(word.writer, word.write_time)) {
    report_race("reads ", lane, column);
  }
  // Only one reader is kept: one whose read this access is not ordered after, while there is one.
  if (!behind(word.reader, word.read_time)) {
    word.reader = me_ + 1;
    word.read_time = read_time_;
  }
  return written == 1;
}

inline void TmemCheck::write(int lane, int column) {
  size_t const index = static_cast<size_t>(tmem_index(lane, column));
  TensorMemory::Word& word = tensor_.known[index];
  if (behind(word.writer, word.write_time) || behind(word.reader, word.read_time)) report_race("writes ", lane, column);
  word = {me_ + 1, write_time_, 0, word.read_time};
  tensor_.written[index] = 1;
}

}  // namespace ptxsim

#endif
