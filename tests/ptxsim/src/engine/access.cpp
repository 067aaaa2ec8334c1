// Memory accesses of a lane: windows of generic addresses, bounds, alignment, never-written bytes, and what the grid
// touched.
#include <cstdio>

#include "engine/grid.h"
#include "machine.h"

namespace ptxsim {
namespace {

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string bytes_at(uint32_t bytes, uint64_t address) { return std::to_string(bytes) + " bytes at " + hex(address); }

// Splits a generic address into a space and an address in it.
Space narrow(Space space, uint64_t* address) {
  if (space != Space::kGeneric) return space;
  uint64_t window = *address >> kWindowShift;
  if (window == 0) return Space::kGlobal;
  *address &= (uint64_t{1} << kWindowShift) - 1;
  return window == kSharedWindow  ? Space::kSharedCluster
         : window == kLocalWindow ? Space::kLocal
         : window == kParamWindow ? Space::kParam
                                  : Space::kNone;
}

char const* name_of(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "global";
    case Space::kConst:
      return "const";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "param";
    case Space::kShared:
    case Space::kSharedCluster:
      return "shared";
    default:
      return "generic";
  }
}

void track(Warp& w, Instruction const& in, int lane, uint64_t address, uint64_t bytes, bool is_write) {
  GlobalAccesses& a = *w.cluster().accesses;
  (is_write ? a.written : a.read).add(address, bytes);
  if (w.waited >> lane & 1) return;
  EarlyAccess& early = a.early[{in.pc, is_write}];
  if (early.bytes.empty()) {
    early.site = site(w, in, lane);
    early.is_write = is_write;
  }
  early.bytes.add(address, bytes);
}

}  // namespace

Cta* Warp::shared_target(Instruction const& in, int lane, Space space, uint64_t address, uint32_t* offset) {
  uint64_t at = address;
  Space where = narrow(space, &at);
  uint64_t rank = at >> kSharedRankShift;
  if ((where != Space::kShared && where != Space::kSharedCluster) || at >> 32 != 0 || rank >= cluster().size() ||
      (where == Space::kShared && rank != cta_->rank())) {
    finding(in, lane, "shared-out-of-bounds",
            hex(address) + (where == Space::kShared && rank < cluster().size()
                                ? " is an address of another CTA's shared memory, used as shared::cta"
                                : " is no address of shared memory in this cluster"));
    return nullptr;
  }
  *offset = static_cast<uint32_t>(at & ((1u << kSharedRankShift) - 1));
  return &cluster().cta(static_cast<uint32_t>(rank));
}

uint8_t* Warp::global_range(Instruction const& in, int lane, uint64_t address, uint64_t bytes, bool is_write,
                            uint32_t alignment) {
  if (alignment > 1 && address % alignment != 0) {
    finding(in, lane, "global-misaligned",
            hex(address) + " must be a multiple of " + std::to_string(alignment) + " here");
    return nullptr;
  }
  Allocation const* a = last_allocation_;
  if (a == nullptr || !a->contains(address, bytes)) {
    a = grid().global().find(address);
    if (a == nullptr || !a->contains(address, bytes)) {
      finding(in, lane, "global-out-of-bounds",
              (is_write ? "write of " : "read of ") + std::to_string(bytes) + " bytes at " + hex(address) + ", " +
                  (a == nullptr ? grid().global().describe(address)
                                : "which goes over the end of an allocation of " + std::to_string(a->bytes) + " bytes" +
                                      (a->name.empty() ? "" : ", variable " + a->name)));
      return nullptr;
    }
    last_allocation_ = a;
  }
  if (is_write && a->read_only) {
    finding(
        in, lane, "write-to-read-only",
        "write of " + std::to_string(bytes) + " bytes at " + hex(address) + " in constant memory (" + a->name + ")");
    return nullptr;
  }
  if (cluster().accesses != nullptr) track(*this, in, lane, address, bytes, is_write);
  return reinterpret_cast<uint8_t*>(address);
}

void Warp::global_wrote(uint64_t address, uint64_t bytes) {
  Allocation const* a = last_allocation_;
  if (a == nullptr || !a->contains(address, bytes)) a = grid().global().find(address);
  if (a != nullptr) GlobalMemory::mark_written(*a, address, bytes);
  ++cluster().progress;
}

bool Warp::read(Instruction const& in, int lane, Space space, uint64_t address, uint32_t bytes, void* out,
                bool* undefined, uint32_t alignment) {
  uint64_t at = address;
  Space where = narrow(space, &at);
  if (alignment == 0) alignment = bytes;
  *undefined = false;
  switch (where) {
    case Space::kGlobal:
    case Space::kConst: {
      uint8_t const* from = global_range(in, lane, at, bytes, false, alignment);
      if (from == nullptr) break;
      *undefined = !GlobalMemory::is_written(*last_allocation_, at, bytes);
      std::memcpy(out, from, bytes);
      if (where == Space::kGlobal) cluster().tally.add(Traffic::kGlobalLoad, bytes);
      return true;
    }
    case Space::kShared:
    case Space::kSharedCluster: {
      uint32_t offset;
      Cta* target = shared_target(in, lane, where, at, &offset);
      if (target == nullptr) break;
      if (!target->shared.in_bounds(offset, bytes)) {
        finding(in, lane, "shared-out-of-bounds",
                "read of " + bytes_at(bytes, offset) + "; shared memory ends at " + hex(target->shared.size()));
        break;
      }
      if (offset % alignment != 0) {
        finding(in, lane, "shared-misaligned", hex(offset) + " must be a multiple of " + std::to_string(alignment));
        break;
      }
      *undefined = target->shared.generic_read(*this, in, lane, offset, bytes);
      std::memcpy(out, target->shared.bytes() + offset, bytes);
      cluster().tally.add(Traffic::kSharedLoad, bytes);
      return true;
    }
    case Space::kLocal: {
      size_t each = local.size() / (2 * kWarpSize);
      if (at + bytes > each || at % alignment != 0) {
        finding(in, lane, at % alignment != 0 ? "local-misaligned" : "local-out-of-bounds",
                "read of " + bytes_at(bytes, at) + "; a thread has " + std::to_string(each) + " bytes of local memory");
        break;
      }
      uint8_t const* base = local.data() + static_cast<size_t>(lane) * 2 * each;
      *undefined = std::memchr(base + each + at, 0, bytes) != nullptr;
      std::memcpy(out, base + at, bytes);
      return true;
    }
    case Space::kParam: {
      auto const& parameters = grid().parameters();
      if (at + bytes > parameters.size() || at % alignment != 0) {
        finding(in, lane, at % alignment != 0 ? "param-misaligned" : "param-out-of-bounds",
                "read of " + bytes_at(bytes, at) + "; the kernel has " + std::to_string(parameters.size()) +
                    " bytes of parameters");
        break;
      }
      std::memcpy(out, parameters.data() + at, bytes);
      return true;
    }
    default:
      finding(in, lane, "bad-address", hex(address) + " lies in no window of generic addresses");
  }
  std::memset(out, 0, bytes);
  return false;
}

bool Warp::write(Instruction const& in, int lane, Space space, uint64_t address, uint32_t bytes, void const* from,
                 bool undefined, uint32_t alignment) {
  uint64_t at = address;
  Space where = narrow(space, &at);
  if (alignment == 0) alignment = bytes;
  switch (where) {
    case Space::kGlobal: {
      uint8_t* to = global_range(in, lane, at, bytes, true, alignment);
      if (to == nullptr) return false;
      if (undefined) {
        finding(in, lane, "uninitialised",
                "a value that depends on memory or registers never written is stored to global memory at " + hex(at));
      }
      std::memcpy(to, from, bytes);
      GlobalMemory::mark_written(*last_allocation_, at, bytes);
      cluster().tally.add(Traffic::kGlobalStore, bytes);
      ++cluster().progress;
      return true;
    }
    case Space::kShared:
    case Space::kSharedCluster: {
      uint32_t offset;
      Cta* target = shared_target(in, lane, where, at, &offset);
      if (target == nullptr) return false;
      if (!target->shared.in_bounds(offset, bytes)) {
        finding(in, lane, "shared-out-of-bounds",
                "write of " + bytes_at(bytes, offset) + "; shared memory ends at " + hex(target->shared.size()));
        return false;
      }
      if (offset % alignment != 0) {
        finding(in, lane, "shared-misaligned", hex(offset) + " must be a multiple of " + std::to_string(alignment));
        return false;
      }
      if (target != cta_ && target->exited()) {
        finding(in, lane, "remote-exited", "write to the shared memory of a CTA that has exited");
      }
      target->shared.generic_write(*this, in, lane, offset, bytes, undefined);
      std::memcpy(target->shared.bytes() + offset, from, bytes);
      cluster().tally.add(Traffic::kSharedStore, bytes);
      ++cluster().progress;
      return true;
    }
    case Space::kLocal: {
      size_t each = local.size() / (2 * kWarpSize);
      if (at + bytes > each || at % alignment != 0) {
        finding(
            in, lane, at % alignment != 0 ? "local-misaligned" : "local-out-of-bounds",
            "write of " + bytes_at(bytes, at) + "; a thread has " + std::to_string(each) + " bytes of local memory");
        return false;
      }
      uint8_t* base = local.data() + static_cast<size_t>(lane) * 2 * each;
      std::memset(base + each + at, undefined ? 0 : 1, bytes);
      std::memcpy(base + at, from, bytes);
      return true;
    }
    case Space::kParam:
    case Space::kConst:
      finding(in, lane, "write-to-read-only",
              std::string("write of ") + bytes_at(bytes, at) + " in " + name_of(where) + " memory");
      return false;
    default:
      finding(in, lane, "bad-address", hex(address) + " lies in no window of generic addresses");
      return false;
  }
}

}  // namespace ptxsim
