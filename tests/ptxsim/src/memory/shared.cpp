#include "memory/shared.h"

#include <cstdio>
#include <cstring>

#include "machine.h"

namespace ptxsim {
namespace {

std::string range_text(uint32_t offset, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "[0x%x, 0x%llx)", offset, static_cast<unsigned long long>(offset + count));
  return text;
}

std::string party_text(Warp& w, uint32_t party) {
  size_t each = w.cta().warps.size() + 2;
  std::string cta = w.cluster().size() > 1 ? " of CTA " + std::to_string(party / each) : "";
  size_t local = party % each;
  if (local == each - 2) return "an asynchronous copy" + cta;
  if (local == each - 1) return "the tensor core" + cta;
  return "warp " + std::to_string(local) + cta;
}

}  // namespace

void SharedMemory::resize(Cta* owner, uint32_t bytes, uint32_t parties) {
  owner_ = owner;
  first_ = kSharedReserved;
  parties_ = parties;
  bytes_.assign(bytes, 0);
  state_.assign(bytes, 0);
  size_t words = (bytes + 3) / 4;
  words_.assign(words, Word());
  reads_.clear();
}

void SharedMemory::note_read(Word& word, uint32_t party, uint32_t time, Clock const& clock, bool by_warp) {
  if (word.reads == 0) {
    if (word.reader == 0 || word.reader - 1 == party || (by_warp && clock[word.reader - 1] >= word.read_time)) {
      word.reader = party + 1;
      word.read_time = time;
      return;
    }
    reads_.resize(reads_.size() + parties_, 0);
    word.reads = static_cast<uint32_t>(reads_.size() / parties_);
    reads_[size_t{word.reads - 1} * parties_ + word.reader - 1] = word.read_time;
  }
  reads_[size_t{word.reads - 1} * parties_ + party] = time;
}

uint32_t SharedMemory::unordered_reader(Word const& word, Clock const& clock, uint32_t me) const {
  uint32_t other = parties_;
  if (word.reads == 0) {
    if (word.reader != 0 && word.reader - 1 != me && word.read_time > clock[word.reader - 1]) other = word.reader - 1;
    return other;
  }
  uint32_t const* reads = &reads_[size_t{word.reads - 1} * parties_];
  for (uint32_t p = 0; p < parties_; ++p) {
    if (reads[p] > clock[p] && p != me) other = p;
  }
  return other;
}

void SharedMemory::mark(uint32_t offset, uint32_t count, uint8_t set, uint8_t clear) {
  for (uint32_t i = offset; i < offset + count; ++i) {
    state_[i] = static_cast<uint8_t>((state_[i] & ~clear) | set);
  }
}

bool SharedMemory::pending(uint32_t offset, uint32_t count) const {
  for (uint32_t i = offset; i < offset + count; ++i) {
    if (state_[i] & kPending) return true;
  }
  return false;
}

bool SharedMemory::check_range(Warp& w, Instruction const& in, int lane, uint32_t offset, uint64_t count,
                               char const* what) {
  if (in_bounds(offset, count)) return true;
  w.finding(in, lane, "shared-out-of-bounds",
            std::string(what) + " of " + range_text(offset, count) + "; shared memory ends at " +
                std::to_string(bytes_.size()));
  return false;
}

bool SharedMemory::check_pending(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count,
                                 char const* what) {
  uint8_t all = 0;
  for (uint32_t i = offset; i < offset + count; ++i) all |= state_[i];
  if (all & kPending) {
    w.finding(
        in, lane, "pending-write",
        std::string(what) + " of " + range_text(offset, count) +
            " in shared memory, which an asynchronous copy is still writing: wait for its mbarrier or group first");
    return false;
  }
  if (all & kMbarrier) {
    w.finding(
        in, lane, "mbarrier-access",
        std::string(what) + " of " + range_text(offset, count) + " in shared memory, where an mbarrier object lives");
    return false;
  }
  return true;
}

bool SharedMemory::generic_read(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count) {
  check_pending(w, in, lane, offset, count, "read");
  uint32_t me = static_cast<uint32_t>(w.cta().party(Agent::kWarp, w.number()));
  uint32_t now = w.clock[me] + 1;
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) {
    Word& word = words_[i];
    note_read(word, me, now, w.clock, true);
    if (word.writer == 0 || word.writer - 1 == me) continue;
    if (w.clock[word.writer - 1] < word.write_time) {
      w.finding(in, lane, "shared-race",
                "read of " + range_text(offset, count) + " in shared memory, which " + party_text(w, word.writer - 1) +
                    " has written without a barrier between the two");
      break;
    }
  }
  uint8_t every = kWritten;
  for (uint32_t i = offset; i < offset + count; ++i) every &= state_[i];
  return every == 0;
}

void SharedMemory::generic_write(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count,
                                 bool undefined) {
  check_pending(w, in, lane, offset, count, "write");
  uint32_t me = static_cast<uint32_t>(w.cta().party(Agent::kWarp, w.number()));
  uint32_t now = w.clock[me] + 1;
  bool reported = false;
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) {
    Word& word = words_[i];
    if (word.sources != 0) {
      if (!reported) {
        w.finding(
            in, lane, "store-source-overwritten",
            "write of " + range_text(offset, count) +
                " in shared memory, which an asynchronous store may still read: cp.async.bulk.wait_group.read first");
      }
      reported = true;
    }
    uint32_t other = parties_;
    // Different bytes of a word may belong to different threads: only whole words are compared in time.
    bool whole = offset <= i * 4 && offset + count >= i * 4 + 4;
    if (whole) {
      if (word.writer != 0 && word.writer - 1 != me && w.clock[word.writer - 1] < word.write_time)
        other = word.writer - 1;
      uint32_t reader = unordered_reader(word, w.clock, me);
      if (reader != parties_) other = reader;
    }
    if (other != parties_ && !reported) {
      w.finding(in, lane, "shared-race",
                "write of " + range_text(offset, count) + " in shared memory, which " + party_text(w, other) +
                    " has accessed without a barrier between the two");
      reported = true;
    }
    word.writer = me + 1;
    word.write_time = now;
    word.generic = true;
    word.lane = static_cast<uint8_t>(lane);
    word.fence_epoch = w.fence_epoch[lane];
  }
  mark(offset, count, undefined ? 0 : kWritten, undefined ? kWritten : 0);
}

bool SharedMemory::async_read(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count,
                              Stamp const& stamp, bool may_be_undefined) {
  if (!check_range(w, in, lane, offset, count, "asynchronous read")) return false;
  check_pending(w, in, lane, offset, count, "asynchronous read");
  size_t each = w.cta().warps.size() + 2;
  bool race = false, fence = false, undefined = false;
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) {
    Word& word = words_[i];
    note_read(word, stamp.party, stamp.time, stamp.clock, false);
    if (word.writer == 0) continue;
    uint32_t writer = word.writer - 1;
    if (writer != stamp.issuer && stamp.clock[writer] < word.write_time && !race) {
      race = true;
      w.finding(in, lane, "async-race",
                "asynchronous read of " + range_text(offset, count) + " in shared memory, which " +
                    party_text(w, writer) + " has written without a barrier between the two");
    }
    if (word.generic && !fence) {
      Warp const& by = w.cluster().cta(static_cast<uint32_t>(writer / each)).warps[writer % each];
      if (by.fence_epoch[word.lane] <= word.fence_epoch) {
        fence = true;
        w.finding(in, lane, "missing-proxy-fence",
                  "asynchronous read of " + range_text(offset, count) + " in shared memory, written by st.shared of " +
                      party_text(w, writer) + ", lane " + std::to_string(word.lane) +
                      ", which has not executed fence.proxy.async since");
      }
    }
  }
  if (!may_be_undefined) {
    for (uint32_t i = offset; i < offset + count && !undefined; ++i) undefined = (state_[i] & kWritten) == 0;
    if (undefined) {
      w.finding(
          in, lane, "uninitialised",
          "asynchronous read of " + range_text(offset, count) + " in shared memory, part of which was never written");
    }
  }
  return true;
}

bool SharedMemory::async_write_begin(Warp& w, Instruction const& in, int lane, uint32_t offset, uint32_t count,
                                     Stamp const& stamp) {
  if (!check_range(w, in, lane, offset, count, "asynchronous write")) return false;
  check_pending(w, in, lane, offset, count, "asynchronous write");
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) {
    Word const& word = words_[i];
    uint32_t other = unordered_reader(word, stamp.clock, stamp.issuer);
    if (other == parties_ && word.writer != 0 && word.writer - 1 != stamp.issuer &&
        stamp.clock[word.writer - 1] < word.write_time) {
      other = word.writer - 1;
    }
    if (other != parties_) {
      w.finding(in, lane, "async-race",
                "asynchronous write of " + range_text(offset, count) + " in shared memory, which " +
                    party_text(w, other) + " has accessed without a barrier between the two");
      break;
    }
    if (word.sources != 0) {
      w.finding(in, lane, "store-source-overwritten",
                "asynchronous write of " + range_text(offset, count) +
                    " in shared memory, which an asynchronous store may still read");
      break;
    }
  }
  mark(offset, count, kPending, 0);
  return true;
}

void SharedMemory::async_write_end(uint32_t offset, uint32_t count, Stamp const& stamp) {
  mark(offset, count, kWritten, kPending);
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) {
    Word& word = words_[i];
    word.writer = stamp.party + 1;
    word.write_time = stamp.time;
    word.generic = false;
  }
}

void SharedMemory::source_begin(uint32_t offset, uint32_t count) {
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) ++words_[i].sources;
}

void SharedMemory::source_end(uint32_t offset, uint32_t count) {
  for (uint32_t i = offset / 4; i <= (offset + count - 1) / 4; ++i) --words_[i].sources;
}

}  // namespace ptxsim
