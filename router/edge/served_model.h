#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/formats/generation_config.h"
#include "common/formats/model_config.h"
#include "common/sample/params.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"

namespace baton {

// What the router knows about the one model it serves: how text becomes tokens and tokens text, and
// what a request means that leaves something out. It has no weights, and is immutable after
// loading.
struct ServedModel {
  std::string name;
  ModelConfig config;
  GenerationConfig generation;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null: the model has none
  std::vector<EosSetEntry> eos;                 // the EOS set with sources, the tokenizer's first
  size_t longest_token_bytes = 0;
  std::string text_fingerprint;  // of tokenizer, vocabulary and EOS set, as workers tell theirs

  std::vector<TokenId> eos_ids() const;
  // The id that the EOS log calls eos_token_id.
  std::optional<TokenId> primary_eos() const;
  // The defaults of this model.
  SamplingParams DefaultSampling() const;
};

// Reads config.json, generation_config.json, the tokenizer's files and the template. The error says
// which file and what is wrong with it. A model without any EOS id loads with a warning.
absl::StatusOr<std::unique_ptr<ServedModel>> LoadServedModel(const std::string& model_dir,
                                                             const std::string& name);

}  // namespace baton
