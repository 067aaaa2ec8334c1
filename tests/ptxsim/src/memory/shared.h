// A CTA's shared memory: bytes, what is known about each byte, and the checks of generic and asynchronous accesses to
// it.
//
// Offsets are those of the CTA's window; kSharedReserved bytes at the start belong to the system. Every check reports
// through the Warp and Instruction it is given, which are those that issue the access.
#ifndef PTXSIM_MEMORY_SHARED_H_
#define PTXSIM_MEMORY_SHARED_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sync/clock.h"

namespace ptxsim {

class Cta;
class Warp;
struct Instruction;

class SharedMemory {
 public:
  void resize(Cta* owner, uint32_t bytes, uint32_t parties);  // bytes: end of the valid window, reserved start included
  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t* bytes() { return bytes_.data(); }

  // Generic accesses of a lane, of `count` bytes inside bounds. Both check pending asynchronous writes, live mbarriers
  // and order; read returns whether any byte was never written.
  bool generic_read(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count);
  void generic_write(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count, bool undefined);

  // The asynchronous proxy. stamp: of the operation, from Warp::stamp(). Each checks bounds first: false means that
  // nothing was done and the caller must not touch the bytes.
  // async_read: generic writes must have been followed by the writer's fence.proxy.async and be ordered before the
  // issuer; never-written bytes are a finding unless may_be_undefined; reading bytes with a pending write is one.
  bool async_read(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count, Stamp const& stamp,
                  bool may_be_undefined = false);
  // Between begin and end the bytes are pending: any access is a finding. Earlier reads and writes must be ordered
  // before.
  bool async_write_begin(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count, Stamp const& stamp);
  void async_write_end(uint32_t offset, uint32_t count, Stamp const& stamp);
  // The source of a store by the asynchronous proxy, between its issue and wait_group.read: writing it is a finding.
  void source_begin(uint32_t offset, uint32_t count);
  void source_end(uint32_t offset, uint32_t count);

  bool in_bounds(uint32_t offset, uint64_t count) const { return offset >= first_ && offset + count <= bytes_.size(); }
  bool pending(uint32_t offset, uint32_t count) const;

  // What is known of a word of four bytes (order and fences) and of each byte.
  struct Word {
    uint32_t writer = 0, write_time = 0;  // party + 1, and its clock then; 0: none
    uint32_t fence_epoch = 0;             // of the writing lane then, of a generic write
    uint8_t lane = 0;
    bool generic = false;
    uint32_t reader = 0, read_time = 0;  // the last reader, likewise, if all readers before it are ordered before it
    uint32_t reads = 0;                  // else one more than the number of its row of reads_
    uint16_t sources = 0;                // stores of the asynchronous proxy that may still read it
  };
  enum : uint8_t { kWritten = 1, kPending = 2, kMbarrier = 4 };
  uint8_t& state(uint32_t offset) { return state_[offset]; }
  void mark(uint32_t offset, uint32_t count, uint8_t set, uint8_t clear);

 private:
  friend class Cta;
  bool check_range(Warp& w, Instruction const& in, int lane, uint32_t offset, uint64_t count, char const* what);
  // by_warp: time and clock are a warp's; who is ordered after its read is ordered after what it knew. An asynchronous
  // agent's own entry says nothing of what its earlier operations knew.
  void note_read(Word& word, uint32_t party, uint32_t time, Clock const& clock, bool by_warp);
  // A party (not me) whose read of the word is not ordered before what the clock knows; parties_ if there is none.
  uint32_t unordered_reader(Word const& word, Clock const& clock, uint32_t me) const;
  bool check_pending(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count, char const* what);

  Cta* owner_ = nullptr;
  uint32_t first_ = 0;
  std::vector<uint8_t> bytes_, state_;
  std::vector<Word> words_;
  std::vector<uint32_t> reads_;  // rows of parties_: the party's clock when it last read the word
  uint32_t parties_ = 0;
};

}  // namespace ptxsim

#endif
