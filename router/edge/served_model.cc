#include "router/edge/served_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/text/eos_set.h"
#include "common/text/text_fingerprint.h"

namespace baton {
namespace {

void LogEosSet(const ServedModel& model) {
  if (model.eos.empty()) {
    spdlog::warn("{}: {}", model.name, kNoEosToken);
  }
  for (const EosSetEntry& entry : model.eos) {
    spdlog::info("{}: EOS token {} {} from {}", model.name, entry.id, entry.text,
                 absl::StrJoin(entry.sources, ", "));
  }
}

}  // namespace

std::vector<TokenId> ServedModel::eos_ids() const {
  std::vector<TokenId> ids;
  for (const EosSetEntry& entry : eos) ids.push_back(entry.id);
  return ids;
}

std::optional<TokenId> ServedModel::primary_eos() const {
  if (eos.empty()) return std::nullopt;
  return eos.front().id;
}

SamplingParams ServedModel::DefaultSampling() const {
  SamplingParams params;
  params.temperature = generation.temperature.value_or(params.temperature);
  params.top_k = generation.top_k.value_or(params.top_k);
  params.top_p = generation.top_p.value_or(params.top_p);
  params.min_p = generation.min_p.value_or(params.min_p);
  params.repetition_penalty = generation.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

absl::StatusOr<std::unique_ptr<ServedModel>> LoadServedModel(const std::string& model_dir,
                                                             const std::string& name) {
  auto model = std::make_unique<ServedModel>();
  model->name = name;
  BATON_ASSIGN_OR_RETURN(model->config, LoadModelConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(model->generation, LoadGenerationConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(model->tokenizer, LoadTokenizer(model_dir));
  auto chat_template = ChatTemplate::Load(model_dir);
  if (chat_template.ok()) {
    model->chat_template = std::move(chat_template).value();
  } else if (chat_template.status().code() != absl::StatusCode::kNotFound) {
    return chat_template.status();
  }
  const Tokenizer& tokenizer = *model->tokenizer;
  BATON_ASSIGN_OR_RETURN(model->eos,
                         LoadEosSet(model_dir, model->config, model->generation, &tokenizer));
  BATON_ASSIGN_OR_RETURN(model->text_fingerprint,
                         TextFingerprint(model_dir, model->config.vocab, model->eos));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    model->longest_token_bytes =
        std::max(model->longest_token_bytes, tokenizer.TokenBytes(id).size());
  }
  LogEosSet(*model);
  return model;
}

}  // namespace baton
