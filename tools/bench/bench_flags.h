#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "tools/client/client_flags.h"

namespace baton::bench {

enum class Protocol { kBaton, kOpenAi };
enum class ArrivalProcess { kPoisson, kConstant, kGamma };
enum class EosChoice { kHonor, kMask, kContinue, kBoth };
enum class SearchKind { kNone, kRate, kConcurrency };
enum class PromptForm { kIds, kText };

// The settings of `baton bench`, as given.
struct BenchFlags {
  // The server. With the openai protocol its address may be a URL with a path before "/v1".
  ClientFlags client;
  Protocol protocol = Protocol::kBaton;
  std::string model;
  std::string tag;  // of all requests; "" = none
  int32_t connections = 4;
  std::vector<std::string> metrics;  // HOST:PORT of admin ports

  // The load: one of a rate, a concurrency, a trace and a search.
  std::optional<double> rate;  // requests per second; infinite: all at once
  std::optional<int32_t> concurrency;
  std::string trace;
  double time_scale = 1;             // of the trace's times; 2 = half as fast
  int32_t trace_block_tokens = 512;  // of a hash id of the trace
  ArrivalProcess arrivals = ArrivalProcess::kPoisson;
  double burstiness = 1;
  base::Duration warmup{};
  base::Duration duration{};  // zero: by number
  std::optional<int32_t> requests;
  int32_t runs = 3;
  int32_t seed = 1;
  std::optional<int32_t> prompt_salt;  // openai; absent: drawn

  // The requests.
  std::string input_tokens = "256";
  std::string output_tokens = "128";
  std::string prompts;  // JSONL
  int32_t shared_prefix_tokens = 0;
  PromptForm prompt_form = PromptForm::kIds;
  std::string tokenizer;  // model directory
  std::optional<int32_t> vocab_size;
  EosChoice eos = EosChoice::kHonor;
  double temperature = 0;

  // What is judged and written.
  std::string slo;
  SearchKind find_max = SearchKind::kNone;
  std::string out;
  std::string rows;
  std::string plots;
  bool explain = false;
};

void BindBench(FlagSet* set, BenchFlags* flags);

// What is allowed but hardly meant, as a line to print before the load; "" when there is nothing.
std::string Caution(const BenchFlags& flags);

// How even the gaps of an open loop are, as the shape of a gamma distribution: 1 is Poisson,
// infinite is constant.
double Burstiness(const BenchFlags& flags);
// How requests arrive: "poisson", "constant", "gamma" or "trace"; "" in a closed loop.
std::string ArrivalsName(const BenchFlags& flags);

}  // namespace baton::bench
