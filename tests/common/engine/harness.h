#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/engine/engine.h"
#include "tests/fakes/fake_runner.h"

namespace baton {

// What a test saw of one sequence.
struct Seen {
  std::vector<TokenId> tokens;  // in order; indices are checked
  int32_t last_index = -1;
  std::vector<SampledToken> samples;
  std::vector<TokenScore> scores;  // in order; indices are checked
  int32_t first_scored = 0;        // the index in the prompt of the first of them
  std::vector<std::pair<SequenceState, SequenceState>> states;
  std::optional<ReservedEvent> reserved;
  std::map<int32_t, std::span<std::byte>> ready;  // kPrefill, by ordinal
  int32_t ready_cached_tokens = 0;
  int32_t last_block_tokens = 0;
  bool last_ready = false;
  std::optional<FinishedEvent> finished;
  std::optional<absl::Status> refused;
  bool revoked = false;
  bool detached = false;

  bool over() const { return finished || refused || revoked; }
};

// An engine over the fake model, driven from the test's thread. Events are read only inside
// RunUntil and its kin, so the test decides when they are seen.
class EngineHarness {
 public:
  struct Options {
    EngineOptions engine;
    FakeModelOptions model;
    int32_t num_blocks = 64;
    int block_size = 4;
    const base::Clock* clock = nullptr;  // default: the real one
  };

  static EngineOptions DefaultEngine() {
    EngineOptions options;
    options.max_model_len = 256;
    options.max_num_seqs = 8;
    options.vocab_size = 1000;
    options.eos_ids = {2};
    return options;
  }

  explicit EngineHarness(Options options)
      : arena_(std::make_unique<FakeArena>(options.num_blocks, options.block_size)),
        host_arena_(std::make_unique<FakeArena>(options.engine.swap_blocks, options.block_size)),
        control_(std::make_shared<FakeRunnerControl>()) {
    options.model.vocab_size = options.engine.vocab_size;
    Start(options.engine, arena_->kv(),
          std::make_unique<FakeRunner>(arena_->kv(), options.model, control_, host_arena_->kv()),
          options.clock != nullptr ? options.clock : &clock_);
  }
  // An engine over a model of the test's own.
  EngineHarness(const EngineOptions& options, const kernels::PagedKv& kv,
                std::unique_ptr<ModelRunner> runner) {
    Start(options, kv, std::move(runner), &clock_);
  }

  Engine& engine() { return *engine_; }
  // What the fake model does is steered by this.
  FakeRunnerControl& control() { return *control_; }
  EngineFigures figures() const { return engine_->figures(); }
  Seen& seen(SequenceId id) { return seen_[id]; }
  size_t sequences_seen() const { return seen_.size(); }
  const std::vector<StepEvent>& steps() const { return steps_; }
  const std::optional<absl::Status>& fault() const { return fault_; }

  SequenceId Admit(SequenceSpec spec) {
    auto id = engine_->Admit(std::move(spec));
    BATON_CHECK(id.ok()) << id.status().ToString();
    return *id;
  }

  // Reads events until `done` holds; false when it did not within ten seconds.
  bool RunUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
      auto event = engine_->events().PopUntil(deadline);
      if (!event) return done();
      Take(std::move(*event));
    }
    return true;
  }
  bool RunUntilOver(SequenceId id) {
    return RunUntil([&] { return seen_[id].over(); });
  }
  // Does as RunUntil, over figures, which may change without an event.
  bool PollUntil(const std::function<bool(const EngineFigures&)>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done(figures())) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      if (auto event = engine_->events().PopUntil(now + std::chrono::milliseconds(1))) {
        Take(std::move(*event));
      }
    }
    return true;
  }
  // Lets the clock go on by 20 ms at a time, with a look at the engine after each, until it has a
  // fault. Returns how often it did before the last time; at most a thousand times.
  int AdvanceUntilFault(base::ManualClock* clock) {
    for (int advances = 0;; ++advances) {
      clock->Advance(std::chrono::milliseconds(20));
      PollUntil([&, polls = 0](const EngineFigures&) mutable { return ++polls > 5; });
      if (fault_ || advances == 1000) return advances;
    }
  }
  void ReadAll() {
    while (auto event = engine_->events().TryPop()) Take(std::move(*event));
  }
  std::vector<TokenId> Generate(SequenceSpec spec) {
    const SequenceId id = Admit(std::move(spec));
    BATON_CHECK(RunUntilOver(id)) << "no end within the test's patience";
    return seen_[id].tokens;
  }
  // Whether every block is free or cached again.
  bool AllBlocksBack() {
    return PollUntil([](const EngineFigures& f) {
      return f.blocks_free + f.blocks_cached == f.blocks_total && f.swap_blocks_used == 0 &&
             f.running == 0 && f.waiting == 0;
    });
  }

 private:
  void Start(const EngineOptions& options, const kernels::PagedKv& kv,
             std::unique_ptr<ModelRunner> runner, const base::Clock* clock) {
    auto engine = Engine::Start(options, kv, std::move(runner), clock);
    BATON_CHECK(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }
  void Take(EngineEvent event) {
    if (auto* step = std::get_if<StepEvent>(&event)) steps_.push_back(*step);
    if (auto* fault = std::get_if<FaultEvent>(&event)) fault_ = fault->status;
    if (auto* of_sequence = std::get_if<SequenceEvent>(&event)) {
      Seen& seen = seen_[of_sequence->sequence];
      std::visit([&](auto& what) { Note(&seen, std::move(what)); }, of_sequence->what);
    }
  }
  static void CheckNotOver(const Seen& seen) {
    BATON_CHECK(!seen.over()) << "an event after the end";
  }
  static void Note(Seen* seen, ReservedEvent event) {
    CheckNotOver(*seen);
    seen->reserved = std::move(event);
  }
  static void Note(Seen* seen, RefusedEvent event) {
    CheckNotOver(*seen);
    seen->refused = event.status;
  }
  static void Note(Seen* seen, StateEvent event) {
    CheckNotOver(*seen);
    BATON_CHECK(seen->states.empty() || seen->states.back().second == event.from) << "state gap";
    seen->states.emplace_back(event.from, event.to);
  }
  static void Note(Seen* seen, BlocksReadyEvent event) {
    CheckNotOver(*seen);
    BATON_CHECK(!seen->last_ready) << "blocks after the last ones";
    for (const LeasedBlock& block : event.blocks) {
      BATON_CHECK(block.ordinal == static_cast<int32_t>(seen->ready.size())) << "a gap in blocks";
      seen->ready[block.ordinal] = block.bytes;
    }
    seen->ready_cached_tokens = event.cached_tokens;
    if (!event.blocks.empty()) seen->last_block_tokens = event.last_block_tokens;
    seen->last_ready = event.last;
  }
  static void Note(Seen* seen, ScoresEvent event) {
    CheckNotOver(*seen);
    BATON_CHECK(seen->tokens.empty()) << "a score behind a token";
    if (seen->scores.empty()) seen->first_scored = event.first_index;
    BATON_CHECK(event.first_index == seen->first_scored + std::ssize(seen->scores)) << "score gap";
    for (TokenScore& score : event.scores) seen->scores.push_back(std::move(score));
  }
  static void Note(Seen* seen, TokenEvent event) {
    CheckNotOver(*seen);
    BATON_CHECK(seen->tokens.empty() || event.index == seen->last_index + 1) << "index gap";
    seen->last_index = event.index;
    seen->tokens.push_back(event.token.token);
    seen->samples.push_back(std::move(event.token));
  }
  static void Note(Seen* seen, FinishedEvent event) {
    CheckNotOver(*seen);
    seen->finished = std::move(event);
  }
  static void Note(Seen* seen, RevokedEvent) {
    CheckNotOver(*seen);
    seen->revoked = true;
  }
  static void Note(Seen* seen, DetachEvent) { seen->detached = true; }

  base::SteadyClock clock_;
  std::unique_ptr<FakeArena> arena_;
  std::unique_ptr<FakeArena> host_arena_;  // of the swap space
  std::shared_ptr<FakeRunnerControl> control_;
  std::unique_ptr<Engine> engine_;
  std::map<SequenceId, Seen> seen_;
  std::vector<StepEvent> steps_;
  std::optional<absl::Status> fault_;
};

// A prompt of `length` ids that differ by `salt`, none of them special.
inline std::vector<TokenId> MakePrompt(int32_t length, int32_t salt = 0) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(10 + (i * 7 + salt * 131) % 900);
  return prompt;
}

inline SequenceSpec MakeSpec(int32_t prompt_length, int32_t max_tokens, int32_t salt = 0,
                             SequenceKind kind = SequenceKind::kLocal) {
  SequenceSpec spec;
  spec.kind = kind;
  spec.prompt = MakePrompt(prompt_length, salt);
  spec.sampling.seed = static_cast<uint64_t>(salt) + 1;
  spec.stop.max_tokens = max_tokens;
  return spec;
}

// Copies the ready blocks of a finished prefill into a granted lease, as a transfer would.
inline void CopyBlocks(const Seen& from, const Seen& to) {
  for (const LeasedBlock& target : to.reserved->lease) {
    const auto source = from.ready.at(target.ordinal);
    std::memcpy(target.bytes.data(), source.data(), source.size());
  }
}

inline EngineHarness::Options Defaults() { return {.engine = EngineHarness::DefaultEngine()}; }

}  // namespace baton
