// Vector clocks over the warps and asynchronous agents of a cluster.
#ifndef PTXSIM_SYNC_CLOCK_H_
#define PTXSIM_SYNC_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ptxsim {

// The asynchronous agents of a CTA; kWarp stands for a warp itself.
enum class Agent : uint8_t { kWarp, kTensorCopy, kTensorCore };

class Clock {
 public:
  void resize(size_t parties) { at_.resize(parties, 0); }
  size_t size() const { return at_.size(); }
  uint32_t operator[](size_t party) const { return at_[party]; }
  void advance(size_t party) { ++at_[party]; }
  void set(size_t party, uint32_t value) { at_[party] = value; }
  void join(Clock const& other) {
    if (at_.size() < other.at_.size()) at_.resize(other.at_.size(), 0);
    for (size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }

 private:
  std::vector<uint32_t> at_;
};

// What the issuer of an asynchronous operation knew, and the operation's own place on its agent's clock.
struct Stamp {
  Clock clock;          // the issuer's, with the agent's own entry advanced
  uint32_t party = 0;   // the agent's number in the clocks of the cluster
  uint32_t time = 0;    // clock[party]
  uint32_t issuer = 0;  // the issuing warp's party
  bool waited = false;  // the issuer was ordered after griddepcontrol.wait
};

}  // namespace ptxsim

#endif
