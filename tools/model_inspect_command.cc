#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/config/units.h"
#include "common/formats/generation_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/mapped_file.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/footprint.h"
#include "common/model/model_options.h"
#include "common/model/quantize/stored_weights.h"
#include "common/model/tensor_specs.h"
#include "common/text/eos_set.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"

namespace baton {
namespace {

struct InspectFlags {
  std::string directory;
  std::string original;
  bool as_json = false;
  bool by_layer = false;
  FootprintQuery query;
  DtypeFlag dtype = DtypeFlag::kAuto;
  KvDtypeFlag kv_dtype = KvDtypeFlag::kAuto;
};

struct Inspection {
  ModelConfig config;
  Footprint footprint;
  std::vector<EosSetEntry> eos_set;
  bool has_tokenizer = false;
  bool has_weights = false;
  std::string unusable;                  // why these weights will not load, if they are bad
  std::vector<StoredWeight> stored;      // of weights that can be read
  std::map<std::string, double> errors;  // of projections, by their names, with --original
};

void BindInspect(FlagSet* set, InspectFlags* flags) {
  BindModelDir(set, &flags->directory);
  set->Add(Common(With(SwitchFlag("json", &flags->as_json), "Output", "as one JSON object")));
  set->Add(With(SwitchFlag("by-layer", &flags->by_layer), "Output",
                "a line for each layer: its size in each kind of weight, and with --original its "
                "least and its largest error in place of all"));
  set->AddCheck([flags] {
    if (!flags->as_json || !flags->by_layer) return absl::OkStatus();
    return UsageError("--by-layer with --json",
                      "JSON has every weight by its name; take one of both",
                      "baton model inspect DIR --json");
  });
  Flag original = With(TextFlag("original", &flags->original), "Weights",
                       "of a quantized model: the directory that it was made from, for the error "
                       "of every projection");
  original.value = "DIR";
  set->Add(std::move(original));
  set->Add(Common(With(IntFlag("tokens", &flags->query.tokens, {.min = 1}), "Costs",
                       "length of the prompt and of the sequence that the costs are for")));
  set->Add(Common(
      With(SizeFlag("memory", &flags->query.memory_bytes, {.min = 0, .max = int64_t{1} << 50}),
           "Costs", "memory for the KV cache")));
  set->Add(With(ChoiceFlag("dtype", &flags->dtype, CpuChoicesOf(DtypeFlag())), "Costs",
                "type of the computation; auto: float32 for fp32 checkpoints, else bfloat16"));
  set->Add(With(ChoiceFlag("kv-dtype", &flags->kv_dtype, CpuChoicesOf(KvDtypeFlag())), "Costs",
                "type of the KV cache; auto: that of the computation"));
  set->Add(With(IntFlag("block-size", &flags->query.block_size, {.min = 1, .max = 1024}), "Costs",
                "tokens in a KV block"));
}

// The model's tokenizer; null when the model has none, as config.json alone suffices.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerIfAny(const std::string& directory) {
  auto tokenizer = LoadTokenizer(directory);
  if (tokenizer.status().code() == absl::StatusCode::kNotFound) {
    return std::unique_ptr<Tokenizer>();
  }
  return tokenizer;
}

// Whether there are weights, good or bad.
bool HasWeights(const std::string& directory) {
  if (IsGgufPath(directory)) return true;
  return IsThere(directory + "/model.safetensors") ||
         IsThere(directory + "/model.safetensors.index.json");
}

// Looks into the weights. What keeps them from being loaded is told with all else that is known of
// the model, and is an error where they are to be compared.
absl::Status InspectWeights(const InspectFlags& flags, Inspection& result) {
  const bool compare = !flags.original.empty();
  if (compare && !result.config.quantization.has_value()) {
    return absl::OutOfRangeError("--original of a model that is not quantized; leave the flag out");
  }
  if (!result.has_weights && !compare) return absl::OkStatus();
  auto files = CheckpointFiles::Open(flags.directory);
  absl::Status checked = files.ok() ? CheckTensors(result.config, **files) : files.status();
  if (checked.ok()) checked = CheckTiedOutput(result.config, **files);
  if (!checked.ok()) {
    result.unusable = std::string(checked.message());
    return compare ? checked : absl::OkStatus();
  }
  result.stored = StoredWeights(result.config, **files);
  if (!compare) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::vector<RoundedProjection> compared,
                         CompareProjections(result.config, **files, flags.original));
  for (const RoundedProjection& projection : compared) {
    result.errors[projection.name] = projection.relative_error;
  }
  return absl::OkStatus();
}

absl::StatusOr<Inspection> Inspect(const InspectFlags& flags) {
  Inspection result;
  BATON_ASSIGN_OR_RETURN(result.config, LoadModelConfig(flags.directory));
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                         TokenizerIfAny(flags.directory));
  result.has_tokenizer = tokenizer != nullptr;
  result.has_weights = HasWeights(flags.directory);
  BATON_RETURN_IF_ERROR(InspectWeights(flags, result));
  BATON_ASSIGN_OR_RETURN(const GenerationConfig generation, LoadGenerationConfig(flags.directory));
  BATON_ASSIGN_OR_RETURN(result.eos_set,
                         LoadEosSet(flags.directory, result.config, generation, tokenizer.get()));
  FootprintQuery query = flags.query;
  query.compute_dtype =
      ResolveComputeDType(kernels::ParseDType(WordOf(flags.dtype)), result.config, flags.directory);
  BATON_ASSIGN_OR_RETURN(query.kv_dtype,
                         ResolveKvDType(kernels::ParseKvDType(WordOf(flags.kv_dtype)),
                                        query.compute_dtype, result.config, kernels::Device::kCpu));
  result.footprint = ComputeFootprint(result.config, query);
  return result;
}

std::string AsJson(const Inspection& inspection) {
  const Footprint& costs = inspection.footprint;
  nlohmann::ordered_json eos_set = nlohmann::ordered_json::array();
  for (const EosSetEntry& entry : inspection.eos_set) {
    eos_set.push_back({{"id", entry.id}, {"text", entry.text}, {"sources", entry.sources}});
  }
  nlohmann::ordered_json stored = nlohmann::ordered_json::object();
  for (const auto& [kind, weights] : StoredKinds(inspection.stored)) {
    stored[kind] = {{"weights", weights.weights}, {"bytes", weights.bytes}};
  }
  nlohmann::ordered_json weights = nlohmann::ordered_json::object();
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (const StoredWeight& weight : inspection.stored) {
    nlohmann::ordered_json& told = weights[weight.name];
    told = {{"kind", weight.kind}, {"bytes", weight.bytes}};
    const auto error = inspection.errors.find(weight.name);
    if (error == inspection.errors.end()) continue;
    told["relative_error"] = errors[weight.name] = error->second;
  }
  nlohmann::ordered_json remarks = nlohmann::ordered_json::array();
  if (inspection.config.quantization.has_value()) {
    remarks = inspection.config.quantization->Remarks();
  }
  const nlohmann::ordered_json json = {{"parameters", costs.parameters},
                                       {"weight_bytes", costs.weight_bytes},
                                       {"stored", stored},
                                       {"weights", weights},
                                       {"unusable", inspection.unusable},
                                       {"remarks", remarks},
                                       {"relative_errors", errors},
                                       {"kv_bytes_per_token", costs.kv_bytes_per_token},
                                       {"activation_peak_bytes", costs.activation_peak_bytes},
                                       {"prefill_flops", costs.prefill_flops},
                                       {"decode_step_flops", costs.decode_step_flops},
                                       {"max_concurrency", costs.max_concurrency},
                                       {"eos_set", eos_set}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// A size for people: 131072 is "131072 B", 134217728 is "134.2 MB".
std::string Bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1'000'000) return absl::StrFormat("%d B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string ErrorsAsText(const Inspection& inspection) {
  std::string text;
  for (const StoredWeight& weight : inspection.stored) {
    const auto error = inspection.errors.find(weight.name);
    if (error == inspection.errors.end()) continue;
    text += absl::StrFormat("error                  %5.2f %% %s (%s, %s)\n", 100 * error->second,
                            weight.name, weight.kind, Bytes(weight.bytes));
  }
  return text;
}

std::string LayersAsText(const Inspection& inspection) {
  std::string text;
  for (int32_t layer = -1; layer < inspection.config.layers; ++layer) {
    std::vector<StoredWeight> weights;
    std::vector<double> errors;
    for (const StoredWeight& weight : inspection.stored) {
      if (weight.layer.value_or(-1) != layer) continue;
      weights.push_back(weight);
      const auto error = inspection.errors.find(weight.name);
      if (error != inspection.errors.end()) errors.push_back(100 * error->second);
    }
    if (weights.empty()) continue;
    const std::string name = layer < 0 ? "no layer" : absl::StrFormat("layer %d", layer);
    text += absl::StrFormat("%-22s", name);
    const char* before = " ";
    for (const auto& [kind, stored] : StoredKinds(weights)) {
      text += absl::StrCat(before, kind, " ", Bytes(stored.bytes));
      before = ", ";
    }
    if (!errors.empty()) {
      const auto [least, most] = std::ranges::minmax(errors);
      text += absl::StrFormat(", error %.2f to %.2f %%", least, most);
    }
    text += "\n";
  }
  return text;
}

std::string AsText(const InspectFlags& flags, const Inspection& inspection) {
  const ModelConfig& config = inspection.config;
  const Footprint& costs = inspection.footprint;
  const int32_t tokens = flags.query.tokens;
  std::string text = absl::StrFormat(
      "%s: %s, %d layers, hidden %d, heads %d/%d of %d, ffn %d, vocabulary %d, context %d\n",
      flags.directory, config.architecture, config.layers, config.hidden, config.heads,
      config.kv_heads, config.head_dim, config.ffn, config.vocab, config.max_positions);
  text += absl::StrFormat("parameters             %d\n", costs.parameters);
  for (const auto& [dtype, bytes] : costs.weight_bytes) {
    text += absl::StrFormat("weights, %-13s %s\n", dtype, Bytes(bytes));
  }
  for (const auto& [kind, weights] : StoredKinds(inspection.stored)) {
    text += absl::StrFormat("stored as %-12s %d weights, %s\n", kind, weights.weights,
                            Bytes(weights.bytes));
  }
  if (config.quantization.has_value()) {
    for (const std::string& remark : config.quantization->Remarks()) {
      text += absl::StrFormat("remark                 %s\n", remark);
    }
  }
  text += absl::StrFormat("KV cache per token     %s\n", Bytes(costs.kv_bytes_per_token));
  text += absl::StrFormat("activations at most    %s in a step of %d tokens\n",
                          Bytes(costs.activation_peak_bytes), tokens);
  text += absl::StrFormat("prefill of %-10d  %.3g GFLOP\n", tokens, costs.prefill_flops * 1e-9);
  text +=
      absl::StrFormat("decode step at %-6d  %.3g GFLOP\n", tokens, costs.decode_step_flops * 1e-9);
  text += absl::StrFormat("concurrency            %d sequences of %d tokens in %s\n",
                          costs.max_concurrency, tokens, FormatSize(flags.query.memory_bytes));
  for (const EosSetEntry& entry : inspection.eos_set) {
    std::string sources;
    for (const std::string& source : entry.sources) {
      sources += (sources.empty() ? "" : ", ") + source;
    }
    text += absl::StrFormat("ends at                %d %s (%s)\n", entry.id, entry.text, sources);
  }
  text += flags.by_layer ? LayersAsText(inspection) : ErrorsAsText(inspection);
  if (inspection.eos_set.empty()) text += "ends at                no EOS token known\n";
  if (!inspection.has_tokenizer) text += "tokenizer.json         missing: it cannot be served\n";
  if (!inspection.has_weights) text += "model.safetensors      missing: it cannot be served\n";
  if (!inspection.unusable.empty()) {
    text += absl::StrFormat("weights                cannot be served: %s\n", inspection.unusable);
  }
  return text;
}

}  // namespace

int ModelInspectCommand(const Invocation& call) {
  InspectFlags flags;
  FlagSet set("baton model inspect", "model", "What a model directory holds and what it costs.");
  BindInspect(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const auto inspection = Inspect(flags);
  if (!inspection.ok()) {
    return ReportFatal(set.program(),
                       FatalOf(inspection.status(), ExitCode::kModel,
                               "cannot read the model in " + flags.directory,
                               "a Hugging Face directory with a config.json of " +
                                   SupportedArchitectures() + ", or a GGUF file of one of them"));
  }
  Print(flags.as_json ? AsJson(*inspection) : AsText(flags, *inspection));
  return 0;
}

}  // namespace baton
