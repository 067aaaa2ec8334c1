// Programmatic dependent launch: what a grid touched before griddepcontrol.wait against what its predecessors touch.
// The sets are compared when all have ended, so that the result does not depend on what really ran at the same time.
#include <cstdio>

#include "engine/engine.h"

namespace ptxsim {
namespace {

using Pointer = std::shared_ptr<Grid::State>;

std::vector<Grid::State*> before_wait(Grid::State const& grid);

// The grids that may still run when griddepcontrol.wait of `grid` has returned: its predecessor has ended then; and so
// has what the predecessor itself waited for.
std::vector<Grid::State*> after_wait(Grid::State const& grid) {
  Grid::State const* before = grid.predecessor.get();
  if (before == nullptr || !before->config.programmatic || before->predecessor == nullptr) return {};
  return before->any_wait ? after_wait(*before) : before_wait(*before);
}

// The grids that may still run when a programmatic grid starts.
std::vector<Grid::State*> before_wait(Grid::State const& grid) {
  std::vector<Grid::State*> all;
  for (Grid::State const* g = &grid; g->config.programmatic && g->predecessor != nullptr; g = g->predecessor.get()) {
    all.push_back(g->predecessor.get());
  }
  return all;
}

std::string conflict(ByteSet const& mine, bool is_write, Grid::State const& other) {
  uint64_t address = 0;
  char const* theirs = nullptr;
  if (mine.intersects(other.accesses.written, &address)) {
    theirs = "writes";
  } else if (is_write && mine.intersects(other.accesses.read, &address)) {
    theirs = "reads";
  }
  if (theirs == nullptr) return "";
  char text[64];
  std::snprintf(text, sizeof text, "0x%llx, which ", static_cast<unsigned long long>(address));
  return (is_write ? "writes " : "reads ") + std::string(text) + other.kernel->name + " " + theirs;
}

}  // namespace

void Engine::check_dependences(std::vector<Pointer> const& grids) {
  for (Pointer const& grid : grids) {
    if (!grid->config.programmatic || grid->predecessor == nullptr) continue;
    for (auto const& [key, early] : grid->accesses.early) {
      for (Grid::State* other : before_wait(*grid)) {
        std::string what = conflict(early.bytes, early.is_write, *other);
        if (what.empty()) continue;
        log_.add(make_finding(*grid, early.site, "pdl-before-wait",
                              what + ", before griddepcontrol.wait: that grid may still run"));
        break;
      }
    }
    for (Grid::State* other : after_wait(*grid)) {
      for (bool is_write : {false, true}) {
        std::string what = conflict(is_write ? grid->accesses.written : grid->accesses.read, is_write, *other);
        if (what.empty()) continue;
        Site where;
        where.kernel = grid->kernel->name;
        log_.add(make_finding(*grid, where, "pdl-not-transitive",
                              what + "; that grid may still run, because " + grid->predecessor->kernel->name +
                                  ", launched between the two, never waits for it"));
        break;
      }
    }
  }
}

}  // namespace ptxsim
