#include "router/edge/eos_meta.h"

#include "common/base/version.h"
#include "nlohmann/json.hpp"

namespace baton {
using Json = nlohmann::ordered_json;

Json SamplingJson(const SamplingParams& params) {
  return {{"temperature", params.temperature},
          {"top_k", params.top_k},
          {"top_p", params.top_p},
          {"min_p", params.min_p},
          {"repetition_penalty", params.repetition_penalty},
          {"presence_penalty", params.presence_penalty},
          {"frequency_penalty", params.frequency_penalty},
          {"no_repeat_ngram_size", params.no_repeat_ngram_size}};
}

std::string EosMetaJson(const ServedModel& model, const RouterOptions& options, double sample,
                        double unix_time) {
  Json eos_set = Json::array();
  for (const EosSetEntry& entry : model.eos) {
    eos_set.push_back({{"id", entry.id}, {"text", entry.text}, {"sources", entry.sources}});
  }
  const auto primary = model.primary_eos();
  const Json meta = {
      {"format", "baton-eos-log"},
      {"format_version", 2},
      {"baton_version", base::Version()},
      {"written", unix_time},
      {"model", model.name},
      {"architecture", model.config.architecture},
      {"vocab_size", model.config.vocab},
      {"eos_token_id", primary ? Json(*primary) : Json(nullptr)},
      {"eos_set", eos_set},
      {"sampling_defaults", SamplingJson(model.DefaultSampling())},
      {"router_seed", options.seed ? Json(*options.seed) : Json(nullptr)},
      {"sample", sample},
      {"eos_logprob",
       "natural log; log-softmax of the raw fp32 logits at temperature 1, log-sum-exp over the "
       "EOS set"},
      {"eos_prob_sampling",
       "mass of the stop set, which is the EOS set and the request's own stop ids, after all "
       "processors"},
      {"row", "the distribution that produced current_token_id"}};
  return meta.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace baton
