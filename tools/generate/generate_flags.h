#pragma once

#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "common/config/flag_set.h"
#include "tools/client/client_flags.h"

namespace baton {

// What the flags of a request say. What is absent is not sent, so that the server's default holds.
struct RequestFlags {
  std::string model;
  std::string tag;
  std::string preset;
  std::optional<int32_t> max_tokens, min_tokens, top_k, no_repeat_ngram_size, logprobs;
  std::optional<int32_t> length_target;
  std::optional<float> length_strength;
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<uint64_t> seed;
  std::optional<int32_t> n, best_of, beam_width;
  std::optional<float> length_penalty;
  baton::v1::EarlyStopping early_stopping = baton::v1::EARLY_STOPPING_UNSPECIFIED;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  baton::v1::EosPolicy eos = baton::v1::EOS_POLICY_UNSPECIFIED;
  bool eos_steps = false;
  bool eos_probe = false;
  bool predict = false;
};

struct GenerateFlags {
  ClientFlags client;
  RequestFlags request;
  std::string prompt;
  std::string prompts_file;  // "-" = standard input
  bool chat = false;
  int32_t concurrency = 1;
  bool json = false;
};

void BindRequest(FlagSet* set, RequestFlags* flags);
void BindGenerate(FlagSet* set, GenerateFlags* flags);

baton::v1::GenerationSpec SpecOf(const RequestFlags& flags);

}  // namespace baton
