#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/flag_set.h"
#include "common/config/options.h"
#include "kernels/backend_factory.h"
#include "tools/planner/question.h"
#include "tools/sim/sim_flags.h"

namespace baton::planner {

// The settings of `baton plan`, as given.
struct PlanFlags {
  std::string model_dir;
  simulator::SimFlags load;  // what it shares with `baton sim`
  std::string slo;
  std::string hardware;  // a file, or "measured"
  int32_t max_devices = 64;
  RolesAllowed roles = RolesAllowed::kAny;
  int32_t tensor_parallel_size = 0;  // 0: any
  DtypeFlag dtype = DtypeFlag::kAuto;
  KvDtypeFlag kv_dtype = KvDtypeFlag::kAuto;
  kernels::Quantization quantization = kernels::Quantization::kNone;
  int32_t block_size = 16;
  int32_t max_prefill_tokens = 2048;
  int32_t max_num_batched_tokens = 2048;
  bool as_json = false;

  PlanFlags();
  bool measured() const { return hardware == "measured"; }
};

void BindPlan(FlagSet* set, PlanFlags* flags);

// How workers run the model, of which `config` is the configuration.
ModelUse ModelUseOf(const PlanFlags& flags, const ModelConfig& config);

// What is asked, but for the builds: makes the load, one run for each seed. An error says which
// flag or file, what was found and what was expected.
absl::StatusOr<Question> QuestionOf(const PlanFlags& flags, const ModelUse& model);

// What the load was, as flags of `baton bench`: "--rate 8 --input-tokens chat …".
std::vector<std::string> BenchLoad(const PlanFlags& flags, const Question& question);

}  // namespace baton::planner
