#include "device.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/engine.h"
#include "kernel.h"

namespace ptxsim {

class Machine {
 public:
  explicit Machine(Properties the_properties) : properties(std::move(the_properties)), engine(properties, log) {}

  struct Entry {
    Module const* module;
    Function const* function;
    std::unique_ptr<Kernel> kernel;  // made at the first launch
  };

  Function const* find(std::string const& mangled) const {
    auto found = entries.find(mangled);
    return found == entries.end() ? nullptr : found->second.function;
  }
  void place_variables(Module& module);
  Kernel* decoded(Entry& entry);
  std::string fault_of(Function const& function, Kernel const& kernel, LaunchConfig const& config,
                       size_t parameter_bytes) const;

  Properties properties;
  FindingLog log;
  Engine engine;
  GlobalMemory memory;
  std::mutex global_lock;
  std::vector<std::unique_ptr<Module>> modules;
  std::map<std::string, Entry> entries;
  std::vector<Counts> counts;
  std::string error;
  uint64_t launches = 0, seed = 0;
};

namespace {

Module const* module_of(Grid::State const& state) { return state.kernel->module; }

uint64_t product(Dim3 const& d) { return uint64_t{d.x} * d.y * d.z; }

}  // namespace

Finding make_finding(Grid::State const& state, Site const& where, std::string check, std::string message) {
  Finding f;
  f.check = std::move(check);
  f.message = std::move(message);
  f.kernel = where.kernel;
  f.cta = where.cta;
  f.warp = where.warp;
  f.lane = where.lane;
  f.ptx_file = module_of(state)->path;
  if (where.statement != nullptr) {
    f.ptx_line = static_cast<int>(where.statement->line);
    f.source = source_text(*module_of(state), *where.statement);
  }
  return f;
}

void FindingLog::add(Finding finding) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto [found, is_new] = known_.try_emplace({finding.check, finding.kernel, finding.ptx_line}, findings_.size());
  if (is_new) findings_.push_back(std::move(finding));
  (void)found;
}

void FindingLog::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  findings_.clear();
  known_.clear();
}

Properties const& Grid::properties() const { return *state_->properties; }
LaunchConfig const& Grid::config() const { return state_->config; }
std::string const& Grid::kernel_name() const { return state_->kernel->name; }
std::vector<uint8_t> const& Grid::parameters() const { return state_->parameters; }
GlobalMemory& Grid::global() { return *state_->memory; }
std::mutex& Grid::global_lock() { return *state_->global_lock; }
uint64_t Grid::random() { return state_->seed; }

void Grid::finding(Site const& where, std::string check, std::string message) {
  state_->log->add(make_finding(*state_, where, std::move(check), std::move(message)));
}

bool Grid::take_cluster(Dim3* first_cta) {
  uint64_t number = state_->next_cluster++;
  if (number >= state_->clusters) return false;
  std::lock_guard<std::mutex> lock(state_->merge_lock);
  ++state_->cancelled;
  *first_cta = state_->first_cta(number);
  return true;
}

// Const and global variables live in device memory; addresses of others in initialisers are known once all are placed.
void Machine::place_variables(Module& module) {
  std::map<std::string_view, Variable*> by_name;
  for (Variable* v : module.variables) {
    by_name[v->name] = v;
    if (v->space != Space::kGlobal && v->space != Space::kConst) continue;
    Allocation* a = memory.allocate(std::max<uint64_t>(v->bytes, 1), std::max<uint32_t>(v->align, 16));
    a->name = std::string(v->name);
    a->read_only = v->space == Space::kConst;
    v->address = reinterpret_cast<uint64_t>(a->start);
    // Without an initialiser they are zero.
    std::fill_n(a->start, a->bytes, uint8_t{0});
    GlobalMemory::mark_written(*a, v->address, a->bytes);
  }
  for (Variable* v : module.variables) {
    for (Variable::Initialiser const& init : v->initialisers) {
      uint64_t value = init.value;
      auto named = by_name.find(init.symbol);
      if (named != by_name.end()) value += named->second->address;
      std::copy_n(reinterpret_cast<uint8_t const*>(&value), init.bytes,
                  reinterpret_cast<uint8_t*>(v->address) + init.offset);
    }
  }
}

Kernel* Machine::decoded(Entry& entry) {
  if (entry.kernel == nullptr) {
    entry.kernel = std::make_unique<Kernel>();
    entry.kernel->decode(*entry.module, *entry.function);
  }
  return entry.kernel.get();
}

std::string Machine::fault_of(Function const& function, Kernel const& kernel, LaunchConfig const& config,
                              size_t parameter_bytes) const {
  uint64_t threads = product(config.block);
  uint64_t limit = product({function.maxntid[0], function.maxntid[1], function.maxntid[2]});
  if (threads == 0 || threads > 1024) return "a block must have 1 to 1024 threads, not " + std::to_string(threads);
  if (limit != 0 && threads > limit) {
    return "the kernel allows " + std::to_string(limit) + " threads a block, not " + std::to_string(threads);
  }
  if (function.reqntid[0] != 0 && (config.block.x != function.reqntid[0] || config.block.y != function.reqntid[1] ||
                                   config.block.z != function.reqntid[2])) {
    return "the kernel requires another block size";
  }
  if (product(config.grid) == 0) return "an empty grid";
  if (config.grid.y > 65535 || config.grid.z > 65535 || config.grid.x > 0x7FFFFFFFu) return "the grid is too large";
  uint64_t cluster = product(config.cluster);
  if (cluster == 0 || cluster > static_cast<uint64_t>(std::max(1, properties.max_cluster))) {
    return "a cluster of " + std::to_string(cluster) + " CTAs";
  }
  if (config.grid.x % config.cluster.x || config.grid.y % config.cluster.y || config.grid.z % config.cluster.z) {
    return "the grid is no multiple of the cluster";
  }
  if (function.cluster[0] != 0 && (config.cluster.x != function.cluster[0] || config.cluster.y != function.cluster[1] ||
                                   config.cluster.z != function.cluster[2])) {
    return "the kernel requires another cluster size";
  }
  uint64_t shared = uint64_t{kernel.dynamic_base} - kSharedReserved + config.dynamic_shared_bytes;
  if (shared > static_cast<uint64_t>(properties.shared_bytes_per_block)) {
    return std::to_string(shared) + " bytes of shared memory, the device has " +
           std::to_string(properties.shared_bytes_per_block) + " a block";
  }
  if (parameter_bytes < function.parameter_bytes) {
    return "the kernel has " + std::to_string(function.parameter_bytes) + " bytes of parameters, " +
           std::to_string(parameter_bytes) + " were given";
  }
  return "";
}

Device::Device(Properties properties) : machine_(std::make_unique<Machine>(std::move(properties))) {}
Device::~Device() = default;
Properties const& Device::properties() const { return machine_->properties; }

void* Device::allocate(size_t bytes) { return bytes == 0 ? nullptr : machine_->memory.allocate(bytes)->start; }
bool Device::release(void* start) { return machine_->memory.release(start); }

bool Device::allocated(void const* start, size_t bytes) const {
  uint64_t address = reinterpret_cast<uint64_t>(start);
  Allocation const* a = machine_->memory.find(address);
  return a != nullptr && a->contains(address, bytes);
}

void Device::host_wrote(void* start, size_t bytes) {
  uint64_t address = reinterpret_cast<uint64_t>(start);
  Allocation const* a = machine_->memory.find(address);
  if (a != nullptr && a->contains(address, bytes)) GlobalMemory::mark_written(*a, address, bytes);
}

bool Device::host_may_read(void const* start, size_t bytes) const {
  uint64_t address = reinterpret_cast<uint64_t>(start);
  Allocation const* a = machine_->memory.find(address);
  return a != nullptr && a->contains(address, bytes) && GlobalMemory::is_written(*a, address, bytes);
}

bool Device::load_module(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    machine_->error = "cannot read " + path;
    return false;
  }
  std::unique_ptr<Module> module = parse_module(path, text.str(), &machine_->error);
  if (module == nullptr) return false;
  machine_->place_variables(*module);
  for (Function const& function : module->functions) {
    if (function.is_entry && !function.body.empty()) {
      machine_->entries[std::string(function.name)] = {module.get(), &function, nullptr};
    }
  }
  machine_->modules.push_back(std::move(module));
  return true;
}

bool Device::has_kernel(std::string const& mangled) const { return machine_->find(mangled) != nullptr; }

std::vector<std::string> Device::kernels() const {
  std::vector<std::string> names;
  for (auto const& [name, entry] : machine_->entries) names.push_back(name);
  return names;
}

std::vector<Device::Parameter> Device::parameters(std::string const& mangled) const {
  std::vector<Parameter> all;
  if (Function const* f = machine_->find(mangled)) {
    for (Variable const* v : f->parameters) all.push_back({v->address, v->bytes});
  }
  return all;
}

size_t Device::static_shared_bytes(std::string const& mangled) const {
  auto found = machine_->entries.find(mangled);
  return found == machine_->entries.end() ? 0 : machine_->decoded(found->second)->static_shared;
}

uint32_t Device::max_threads(std::string const& mangled) const {
  Function const* f = machine_->find(mangled);
  uint64_t limit = f == nullptr ? 0 : product({f->maxntid[0], f->maxntid[1], f->maxntid[2]});
  if (f != nullptr && limit == 0) limit = product({f->reqntid[0], f->reqntid[1], f->reqntid[2]});
  return limit == 0 ? 1024 : static_cast<uint32_t>(limit);
}

Dim3 Device::required_cluster(std::string const& mangled) const {
  Function const* f = machine_->find(mangled);
  return f == nullptr ? Dim3{0, 0, 0} : Dim3{f->cluster[0], f->cluster[1], f->cluster[2]};
}

bool Device::launch(std::string const& mangled, LaunchConfig const& config, std::vector<uint8_t> const& parameters) {
  auto found = machine_->entries.find(mangled);
  if (found == machine_->entries.end()) {
    machine_->error = "no kernel " + demangle(mangled);
    return false;
  }
  Kernel* kernel = machine_->decoded(found->second);
  std::string fault = machine_->fault_of(*found->second.function, *kernel, config, parameters.size());
  auto state = std::make_shared<Grid::State>();
  state->properties = &machine_->properties;
  state->config = config;
  state->kernel = kernel;
  for (Kernel::Unknown const& unknown : kernel->unknown) {
    Site where;
    where.kernel = kernel->name;
    where.statement = unknown.statement;
    machine_->log.add(make_finding(*state, where, "unknown-instruction",
                                   "\"" + opcode_text(*unknown.statement) + "\" is not known: " + unknown.reason));
    if (fault.empty()) {
      fault = "unknown instruction " + opcode_text(*unknown.statement) + " at line " +
              std::to_string(unknown.statement->line) + " (" + unknown.reason + ")";
    }
  }
  if (!fault.empty()) {
    machine_->error = kernel->name + ": " + fault;
    return false;
  }
  state->parameters = parameters;
  state->memory = &machine_->memory;
  state->log = &machine_->log;
  state->global_lock = &machine_->global_lock;
  state->number = ++machine_->launches;
  state->seed = machine_->seed;
  Dim3 const& g = config.grid;
  Dim3 const& c = config.cluster;
  uint32_t const dims[3] = {c.x, c.y, c.z}, grid[3] = {g.x / c.x, g.y / c.y, g.z / c.z};
  std::copy_n(dims, 3, state->cluster_dims);
  std::copy_n(grid, 3, state->cluster_grid);
  state->clusters = uint64_t{grid[0]} * grid[1] * grid[2];
  machine_->engine.queue(std::move(state));
  return true;
}

void Device::synchronize() {
  for (auto const& grid : machine_->engine.run()) {
    LaunchConfig const& config = grid->config;
    uint32_t const g[3] = {config.grid.x, config.grid.y, config.grid.z};
    uint32_t const b[3] = {config.block.x, config.block.y, config.block.z};
    machine_->counts.push_back({grid->kernel->name, grid->tally.json(grid->kernel->name, g, b, grid->cluster_dims)});
  }
}

bool Device::set_schedule(uint64_t seed, std::string const& completion, int threads) {
  AsyncMode mode = completion == "eager"    ? AsyncMode::kEager
                   : completion == "random" ? AsyncMode::kRandom
                                            : AsyncMode::kLazy;
  if (mode == AsyncMode::kLazy && completion != "lazy") {
    machine_->error = "completion must be eager, random or lazy";
    return false;
  }
  machine_->seed = seed;
  machine_->engine.set_schedule(mode, threads);
  return true;
}

std::vector<Finding> const& Device::findings() const { return machine_->log.all(); }
void Device::clear_findings() { machine_->log.clear(); }
std::vector<Counts> const& Device::counts() const { return machine_->counts; }
void Device::clear_counts() { machine_->counts.clear(); }
std::string const& Device::error() const { return machine_->error; }

}  // namespace ptxsim
