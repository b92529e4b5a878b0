#pragma once

#include <string>
#include <vector>

#include "common/config/flag_set.h"
#include "common/config/options.h"

namespace baton {

// The settings of `baton serve DIR`: the router's own and those that every worker gets.
struct ServeFlags {
  ServeFlags() {
    router.ignore_eos = IgnoreEosFlag::kAllow;
    router.eos_log = "./eos_probabilities.jsonl";
    router.http.port = 8000;
  }

  RouterFlags router;  // with the model directory and the server's settings
  EngineFlags engine;
  PredictionFlags prediction;
  HandoffFlags handoff;
  RoleFlags roles;
  DraftFlags draft;
  SwapFlags swap;
  int32_t prefill = 1;  // workers; with --elastic both counts together are elastic ones
  int32_t decode = 1;
  bool unified = false;  // decode workers prefill too; none else
};

// Adds the flags of all of them. Router and workers both have `--max-num-queued-reqs`; here it is
// the router's.
void BindServe(FlagSet* set, ServeFlags* flags);

// The command lines that `serve` starts its processes with, without the program's name. Every
// setting that was given is spelled out: the children get no BATON_* variables and no file.
//
// Where the worker is to listen; 0 means any free port. One that is started again comes back at the
// ports of its earlier life.
struct WorkerAddress {
  int32_t port = 0;
  int32_t admin_port = 0;
};
// What a worker gets of the machine.
struct MachineShare {
  int32_t threads = 1;      // of the computation
  int32_t gpu_sharers = 1;  // workers on its GPUs, which divide --gpu-memory-utilization
  int32_t learner = -1;     // its number among those that learn of lengths; -1: does not
  bool generates = true;    // so it has draft model and swap space, if there are any
  std::string load_cache;   // where it shares weights, unless a flag says; "": nowhere
};
std::vector<std::string> WorkerArguments(const FlagSet& set, const ServeFlags& flags,
                                         const MachineShare& share, WorkerAddress address);
std::vector<std::string> RouterArguments(const FlagSet& set, const ServeFlags& flags,
                                         const std::vector<std::string>& prefill_addresses,
                                         const std::vector<std::string>& decode_addresses);

// How `cores` are divided among `workers`, at least one each; the first get what is left over.
std::vector<int32_t> DivideThreads(int32_t cores, int32_t workers);

}  // namespace baton
