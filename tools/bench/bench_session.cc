#include "tools/bench/bench_session.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/philox.h"
#include "common/base/status.h"
#include "tools/bench/client/baton_client.h"
#include "tools/bench/client/openai_client.h"
#include "tools/bench/figures/server_metrics.h"
#include "tools/bench/load/load_generator.h"

namespace baton::bench {
namespace {

// When so many requests in a row fail, beyond those that were under way, the server is gone.
constexpr int32_t kGiveUpAfter = 50;
// How long to wait beyond the time that a request may take: until then the client has ended each of
// them by itself.
constexpr base::Duration kDrainBeyondTimeout = std::chrono::seconds(5);

void Say(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

// Other prompts for another seed, use of EOS or salt.
uint64_t PromptSeed(const RunSpec& spec, int64_t salt) {
  const auto words =
      base::Philox4x32({static_cast<uint32_t>(salt), static_cast<uint32_t>(salt >> 32),
                        static_cast<uint32_t>(spec.eos), 0},
                       spec.seed);
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchSession>> BenchSession::Open(const BenchFlags& flags,
                                                                 const std::atomic<bool>* stop,
                                                                 ProgressView* progress) {
  std::unique_ptr<BenchSession> session(new BenchSession(flags, stop, progress));
  BATON_RETURN_IF_ERROR(session->Prepare());
  return session;
}

absl::Status BenchSession::Prepare() {
  BATON_ASSIGN_OR_RETURN(input_,
                         LengthDistribution::Parse(flags_.input_tokens, LengthSide::kInput));
  BATON_ASSIGN_OR_RETURN(output_,
                         LengthDistribution::Parse(flags_.output_tokens, LengthSide::kOutput));
  if (!flags_.slo.empty()) {  // refused before the server is asked, as far as it can be
    const double any = SloNamesReader(flags_.slo) ? 1 : 0;
    BATON_ASSIGN_OR_RETURN(slo_, ParseSlo(flags_.slo, any));
  }
  if (!flags_.tokenizer.empty()) {
    BATON_ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(flags_.tokenizer));
  }
  BATON_ASSIGN_OR_RETURN(facts_, AskServer(flags_));
  if (flags_.protocol == Protocol::kOpenAi) SaltPrompts();
  if (!SloNamesReader(flags_.slo)) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const double tokens_per_word, MeasureTokensPerWord(flags_, facts_));
  BATON_ASSIGN_OR_RETURN(slo_, ParseSlo(flags_.slo, tokens_per_word));
  Say(absl::StrCat("SLO: ", SloText(*slo_), " (", tokens_per_word, " tokens per word)"));
  return absl::OkStatus();
}

// A prefix cache that is not told who asks knows the prompts of every run before.
void BenchSession::SaltPrompts() {
  if (!flags_.prompts.empty()) {
    return Say(
        "the prompts of " + flags_.prompts +
        " are sent as they are: what the server saw of them before, its prefix cache may know");
  }
  prompt_salt_ = flags_.prompt_salt ? *flags_.prompt_salt
                                    : static_cast<int64_t>(std::random_device()() & INT32_MAX);
  Say(absl::StrCat("prompts are drawn with --prompt-salt ", *prompt_salt_,
                   "; give it to send the same ones again"));
  if (flags_.tokenizer.empty()) {
    Say(absl::StrCat("prompts are drawn from all ids below ", facts_.vocab_size,
                     ", EOS and other special tokens among them; --tokenizer leaves those out"));
  }
}

PlanOptions BenchSession::PlanOptionsOf(const RunSpec& spec) const {
  PlanOptions options;
  options.rate = spec.rate.value_or(0);
  options.concurrency = spec.concurrency.value_or(0);
  options.trace = flags_.trace;
  options.burstiness = Burstiness(flags_);
  options.time_scale = flags_.time_scale;
  options.block_tokens = flags_.trace_block_tokens;
  if (flags_.prompts.empty() && flags_.trace.empty()) options.input = input_;
  if (flags_.trace.empty()) options.output = output_;
  options.prompts = flags_.prompts;
  options.requests = spec.requests;
  options.duration = spec.duration;
  options.warmup = flags_.warmup;
  options.seed = spec.seed;
  if (prompt_salt_) options.prompt_seed = PromptSeed(spec, *prompt_salt_);
  options.eos = spec.eos;
  options.max_model_len = facts_.max_model_len;
  options.vocabulary = {.vocab_size = facts_.vocab_size, .excluded = facts_.excluded_ids};
  options.tokenizer = tokenizer_.get();
  options.text = flags_.prompt_form == PromptForm::kText;
  options.shared_prefix_tokens = flags_.shared_prefix_tokens;
  return options;
}

absl::StatusOr<int64_t> BenchSession::MostRequestsOfARun() const {
  RunSpec spec;
  spec.seed = static_cast<uint64_t>(flags_.seed);
  spec.concurrency = 1;
  return MostRequestsOfAPlan(PlanOptionsOf(spec));
}

absl::StatusOr<std::unique_ptr<StreamClient>> BenchSession::Connect(const RunSpec& spec) const {
  if (flags_.protocol == Protocol::kOpenAi) {
    OpenAiClientOptions options;
    options.base_url = flags_.client.server;
    options.model = facts_.model;
    options.temperature = static_cast<float>(flags_.temperature);
    options.seed = spec.seed;
    options.eos = spec.eos;
    options.tls = ChannelOptionsOf(flags_.client).tls;
    options.api_key = OpenAiKeyOf(flags_.client);
    options.tag = flags_.tag;
    options.max_streams = spec.concurrency ? *spec.concurrency : 1;
    options.timeout = flags_.client.timeout;
    BATON_ASSIGN_OR_RETURN(auto client, OpenAiClient::Connect(options));
    return client;
  }
  BatonClientOptions options;
  options.address = flags_.client.server;
  options.channel = ChannelOptionsOf(flags_.client);
  options.connections = flags_.connections;
  options.model = facts_.model;
  options.temperature = static_cast<float>(flags_.temperature);
  options.seed = spec.seed;
  options.cache_salt = absl::StrFormat("bench %.9f %s", base::SteadyClock().UnixNow(), spec.label);
  options.eos = spec.eos;
  options.timeout = flags_.client.timeout;
  options.as_tenant = flags_.client.as_tenant;
  options.tag = flags_.tag;
  BATON_ASSIGN_OR_RETURN(auto client, BatonClient::Connect(options));
  return client;
}

void BenchSession::Announce(const RunSpec& spec, const PlanSummary& plan) const {
  const auto say = [&](const std::string& text) { Say(absl::StrCat(spec.label, ": ", text)); };
  if (plan.clamped > 0) {
    say(absl::StrCat(plan.clamped, " of ", plan.requests,
                     " requests were shortened to fit the model's ", facts_.max_model_len,
                     " tokens"));
  }
  if (plan.filled_by_prefix > 0) {
    say(FilledByPrefix(plan.filled_by_prefix, plan.requests, flags_.shared_prefix_tokens));
  }
  if (plan.repeated_prompts > 0) {
    say(absl::StrCat(plan.repeated_prompts, " of ", plan.requests, " requests repeat a prompt of ",
                     flags_.prompts, ": a server's prefix cache may know them"));
  }
}

// Says it once only, because what makes a server count otherwise does so in every run.
void BenchSession::WarnOfPromptCounts(const RunResult& run) {
  const PromptCounts& counts = run.prompt_counts;
  if (counts.different == 0 || warned_of_counts_) return;
  warned_of_counts_ = true;
  Say(absl::StrCat(run.label, ": the server counted other lengths than planned for ",
                   counts.different, " of ", counts.compared, " prompts, the first of ",
                   counts.planned, " tokens as ", counts.counted,
                   " (special tokens that it adds, or another tokenizer)"));
}

absl::StatusOr<RunResult> BenchSession::Run(const RunSpec& spec) {
  BATON_ASSIGN_OR_RETURN(const BuiltPlan built, BuildPlan(PlanOptionsOf(spec)));
  BATON_ASSIGN_OR_RETURN(const auto client, Connect(spec));
  Announce(spec, built.summary);
  LoadOptions options;
  options.concurrency = spec.concurrency.value_or(0);
  options.drain = flags_.client.timeout + kDrainBeyondTimeout;
  if (spec.concurrency && spec.duration > base::Duration::zero()) {
    options.duration = flags_.warmup + spec.duration;
  }
  options.give_up_after = kGiveUpAfter + 2 * options.concurrency;
  std::unique_ptr<MetricsScraper> scraper;
  if (!flags_.metrics.empty()) {
    BATON_ASSIGN_OR_RETURN(scraper, MetricsScraper::Start({.targets = flags_.metrics}));
  }
  progress_->Begin(spec.label);
  LoadResult load = RunLoad(built.plan, options, client.get(), *stop_,
                            [this](const LoadProgress& now) { progress_->Update(now); });
  progress_->End();
  nlohmann::ordered_json server_metrics;
  std::optional<double> peak_kv_usage;
  if (scraper != nullptr) {
    const ServerMetrics metrics = scraper->Stop();
    server_metrics = MetricsAsJson(metrics, load.started);
    peak_kv_usage = metrics.PeakKvUsage();
  }
  const size_t planned = built.plan.requests.size();
  if (built.summary.may_run_out && load.records.size() == planned) {
    Say(absl::StrCat(spec.label, ": all ", planned,
                     " planned requests were used up before the duration was over"));
  }
  RunResult result =
      ComputeRun(std::move(load), spec.eos,
                 {.warmup_s = base::Seconds(flags_.warmup), .concurrency = options.concurrency},
                 slo_, spec.seed);
  result.label = spec.label;
  result.rate = spec.rate;
  result.concurrency = spec.concurrency;
  // Where all requests are due at once, each but the first leaves late.
  if (spec.rate && std::isinf(*spec.rate)) result.client_limited = false;
  if (!result.partial_reason.empty()) {
    absl::StrAppend(&result.partial_reason, ", ", result.load.records.size(), " of ", planned,
                    " requests sent");
  }
  result.server_metrics = std::move(server_metrics);
  result.peak_kv_usage = peak_kv_usage;
  WarnOfPromptCounts(result);
  return result;
}

}  // namespace baton::bench
