// Tensor maps in memory: tensormap.replace, tensormap.cp_fenceproxy, fence.proxy.tensormap, and reading one for a copy.
//
// A map that a kernel changes in global memory may be used only after a release of it (cp_fenceproxy, or the release
// fence after tensormap.replace on global memory) and an acquire of that address since, by a warp of the same CTA that
// the use is ordered after: proxy-preserved causality order asks for the fence somewhere on the way (PTX ISA, 8.9.4), so
// one warp may acquire for those that it lets go on through a barrier. Of changes by the same cluster it is checked that
// the acquire is ordered after them; between clusters nothing is known of order. Changes by plain stores are not tracked.
#include <mutex>
#include <unordered_map>

#include "engine/grid.h"
#include "isa/tensor.h"
#include "isa/tensor_state.h"
#include "isa/tma.h"
#include "memory/global.h"

namespace ptxsim {
namespace {

struct Modified {
  uint64_t grid = 0;  // launch that changed it
  uint64_t generation = 0;
  bool released = false;
  Dim3 cluster;        // the first CTA of the cluster that did
  uint32_t party = 0;  // the warp that did, in the clocks of that cluster, and when
  uint32_t time = 0;
};
std::mutex modified_lock;
std::unordered_map<uint64_t, Modified> modified_maps;  // by global address
uint64_t generations = 0;

void modify(Warp& w, uint64_t address, bool released) {
  Stamp const stamp = w.stamp(Agent::kWarp, w.leader());
  std::lock_guard<std::mutex> const hold(modified_lock);
  modified_maps[address] = {w.grid().state().number,    ++generations, released,
                            w.cluster().cta(0).index(), stamp.party,   stamp.time};
}

bool same(Dim3 const& a, Dim3 const& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

// Whether the warp is ordered after the change, as far as that is known.
bool knows_of(Warp& w, Modified const& change) {
  return !same(change.cluster, w.cluster().cta(0).index()) || w.clock[change.party] >= change.time;
}

bool usable(Warp& w, uint64_t address) {
  std::lock_guard<std::mutex> const hold(modified_lock);
  auto const found = modified_maps.find(address);
  if (found == modified_maps.end() || found->second.grid != w.grid().state().number) return true;
  auto const& all = tensor_state(w.cta()).acquired_maps;
  auto const acquired = all.find(address);
  if (!found->second.released || acquired == all.end() || acquired->second.generation != found->second.generation)
    return false;
  for (auto const& [party, time] : acquired->second.by)
    if (w.clock[party] >= time) return true;
  return false;
}

struct Replace {
  TensorMapField field;
  Space space = Space::kGeneric;
  Operand const* address = nullptr;
  Operand const* value = nullptr;
  int ordinal = 0;
};

bool is_global(uint64_t address) { return address >> kWindowShift == 0; }

Step run_replace(Warp& w, Instruction const& in) {
  Replace const& r = in.decoded<Replace>();
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.active() >> lane & 1) == 0) continue;
    uint64_t const address = w.address(*r.address, lane);
    uint8_t bytes[kTensorMapBytes];
    bool undefined;
    if (!w.read(in, lane, r.space, address, kTensorMapBytes, bytes, &undefined, kTensorMapAlignment)) continue;
    uint64_t const value = w.value(*r.value, lane);
    if (undefined || ((w.poison(*r.value) | w.poison(*r.address)) >> lane & 1) != 0)
      w.finding(in, lane, "uninitialised", "tensormap.replace on a map, or of a value, that was never written");
    std::string const fault = replace_tensor_map_field(bytes, r.field, r.ordinal, value);
    if (!fault.empty()) w.finding(in, lane, "tensor-map", fault);
    w.write(in, lane, r.space, address, kTensorMapBytes, bytes, false, kTensorMapAlignment);
    if (r.space == Space::kGlobal || (r.space == Space::kGeneric && is_global(address))) modify(w, address, false);
  }
  return Step::kNext;
}

Step run_copy(Warp& w, Instruction const& in) {
  Operand const& to = in.operand(0);
  Operand const& from = in.operand(1);
  int const lane = w.leader();
  uint64_t const target = w.address(to, lane);
  uint8_t bytes[kTensorMapBytes];
  bool undefined;
  if (w.read(in, lane, Space::kShared, w.address(from, lane), kTensorMapBytes, bytes, &undefined, kTensorMapBytes)) {
    w.write(in, lane, Space::kGlobal, target, kTensorMapBytes, bytes, undefined, kTensorMapBytes);
    modify(w, target, true);
  }
  return Step::kNext;
}

Step run_acquire(Warp& w, Instruction const& in) {
  uint64_t const address = w.address(in.operand(0), w.leader());
  Stamp const stamp = w.stamp(Agent::kWarp, w.leader());
  std::lock_guard<std::mutex> const hold(modified_lock);
  auto const found = modified_maps.find(address);
  if (found == modified_maps.end() || !found->second.released || !knows_of(w, found->second)) return Step::kNext;
  AcquiredMap& acquired = tensor_state(w.cta()).acquired_maps[address];
  if (acquired.generation != found->second.generation) acquired = {found->second.generation, {}};
  acquired.by.try_emplace(stamp.party, stamp.time);  // the first counts: later ones add nothing
  return Step::kNext;
}

Step run_release(Warp& w, Instruction const&) {
  std::lock_guard<std::mutex> const hold(modified_lock);
  for (auto& entry : modified_maps)
    if (entry.second.grid == w.grid().state().number) entry.second.released = true;
  return Step::kNext;
}

Handler decode_replace(Decoder& d) {
  auto r = std::make_shared<Replace>();
  int const field = d.take_one_of({"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride",
                                   "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"});
  if (field < 0 || !d.take("tile") || !d.take("b1024")) return d.fail("no such tensormap.replace");
  r->field = static_cast<TensorMapField>(field);
  if (d.take("global")) r->space = Space::kGlobal;
  if (d.take("shared::cta")) r->space = Space::kShared;
  int const type = d.take_one_of({"b32", "b64"});
  bool const wide = r->field == TensorMapField::kGlobalAddress || r->field == TensorMapField::kGlobalStride;
  if (type != (wide ? 1 : 0)) return d.fail("the value's type does not suit the field");
  bool const with_ordinal = field >= 2 && field <= 5;
  if (!d.operands(with_ordinal ? 3 : 2, with_ordinal ? 3 : 2)) return nullptr;
  r->address = &d.operand(0);
  int64_t ordinal = 0;
  if (with_ordinal && !d.immediate(1, &ordinal)) return d.fail("the ordinal must be an immediate");
  r->ordinal = static_cast<int>(ordinal);
  r->value = &d.operand(with_ordinal ? 2 : 1);
  d.instruction().data = r;
  return run_replace;
}

}  // namespace

Handler decode_tensormap(Decoder& d) {
  d.instruction().side_effect = true;
  d.instruction().category = Class::kTensorCopy;
  if (d.take("replace")) return decode_replace(d);
  // tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [to], [from], 128
  if (!d.take("cp_fenceproxy") || !d.take("global") || !d.take("shared::cta") || !d.take("tensormap::generic") ||
      !d.take("release") || d.take_one_of({"cta", "cluster", "gpu", "sys"}) < 0 || !d.take("sync") ||
      !d.take("aligned"))
    return d.fail("no such tensormap instruction");
  int64_t bytes;
  if (!d.operands(3, 3)) return nullptr;
  if (!d.immediate(2, &bytes) || bytes != kTensorMapBytes) return d.fail("the size must be 128");
  d.instruction().aligned = true;
  return run_copy;
}

bool is_tensormap_fence(Decoder const& d) { return d.has("tensormap::generic"); }

Handler decode_tensormap_fence(Decoder& d) {
  // fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [address], 128
  if (!d.take("proxy") || !d.take("tensormap::generic")) return d.fail("no such fence");
  int const what = d.take_one_of({"acquire", "release"});
  if (what < 0 || d.take_one_of({"cta", "cluster", "gpu", "sys"}) < 0) return d.fail("no such fence");
  d.instruction().side_effect = true;
  d.instruction().category = Class::kFence;
  if (!d.operands(what == 0 ? 2 : 0, what == 0 ? 2 : 0)) return nullptr;
  return what == 0 ? run_acquire : run_release;
}

bool fetch_tensor_map(Warp& w, Instruction const& in, int lane, uint64_t address, uint32_t rank, TensorMap* map) {
  uint8_t bytes[kTensorMapBytes];
  bool undefined = false;
  if (!w.read(in, lane, Space::kGeneric, address, kTensorMapBytes, bytes, &undefined, kTensorMapAlignment))
    return false;
  std::string fault;
  if (undefined) {
    fault = "the tensor map was never written";
  } else if (!unpack_tensor_map(bytes, map)) {
    fault = "the 128 bytes are no tensor map";
  } else if (fault = tensor_map_fault(*map); fault.empty()) {
    fault = tensor_map_unsupported(*map);
    if (fault.empty() && map->rank != rank)
      fault = "a map of rank " + std::to_string(map->rank) + " in an instruction of " + std::to_string(rank) + "d";
  }
  if (!fault.empty()) {
    w.finding(in, lane, "tensor-map", fault);
    return false;
  }
  if (is_global(address) && !usable(w, address))
    w.finding(
        in, lane, "tensor-map-not-acquired",
        "the map was changed by this grid; it needs a release, and since then a fence.proxy.tensormap acquire by this "
        "warp, or by one of its CTA that it is ordered after");
  return true;
}

bool fetch_tensor_box(Warp& w, Instruction const& in, int lane, Operand const& op, bool is_write, TensorBox* box) {
  if (op.elements.size() != 2) return false;
  std::vector<Operand const*> const coordinates = elements_of(op.elements[1]);
  if ((w.poison(op) >> lane & 1) != 0)
    w.finding(in, lane, "uninitialised", "a coordinate or the map's address depends on what was never written");
  uint32_t const rank = static_cast<uint32_t>(coordinates.size());
  if (!fetch_tensor_map(w, in, lane, w.address(op, lane), rank, &box->map)) return false;
  for (uint32_t d = 0; d < rank; ++d) box->at[d] = static_cast<int32_t>(w.value_signed(*coordinates[d], lane));
  if (std::string const fault = tensor_coordinates_fault(box->map, box->at, is_write); !fault.empty()) {
    w.finding(in, lane, "tensor-coordinates", fault);
    return false;
  }
  box->bytes = static_cast<uint32_t>(tensor_box_bytes(box->map));
  if (is_write) round_up_for_stores(&box->map);
  // Row by row, without the swizzle's pieces.
  TensorMap plain = box->map;
  plain.swizzle = TensorSwizzle::kNone;
  bool fine = true;
  for_each_tensor_run(plain, box->at, 0, [&](TensorRun const& run) {
    if (!run.in_bounds) box->whole = false;
    if (!run.in_bounds || !fine) return;
    box->inside += run.bytes;
    fine = w.global_range(in, lane, run.global, run.bytes, is_write, 1) != nullptr;
    if (!fine || is_write) return;
    Allocation const* allocation = w.grid().global().find(run.global);
    if (allocation != nullptr && !GlobalMemory::is_written(*allocation, run.global, run.bytes))
      box->all_written = false;
  });
  return fine;
}

}  // namespace ptxsim
