#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"

namespace baton {

// What a request may say; what is absent is not sent, so that the server's default holds.
struct RequestFlags {
  std::string model;
  std::optional<int32_t> max_tokens, min_tokens, top_k, no_repeat_ngram_size, logprobs;
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  baton::v1::EosPolicy eos = baton::v1::EOS_POLICY_UNSPECIFIED;
  bool eos_steps = false;
};

// The server and how to reach it.
struct ClientFlags {
  std::string server = "127.0.0.1:50051";
  base::Duration timeout = std::chrono::seconds(600);  // of one request
  TlsFlags tls;
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

void BindClient(FlagSet* set, ClientFlags* flags);
void BindRequest(FlagSet* set, RequestFlags* flags);
void BindGenerate(FlagSet* set, GenerateFlags* flags);

baton::v1::GenerationSpec SpecOf(const RequestFlags& flags);

}  // namespace baton
