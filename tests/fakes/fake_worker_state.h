#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "tests/fakes/fake_worker.h"

namespace baton::testing {

// What the streams of one fake worker share.
struct FakeWorkerState {
  FakeCluster* cluster = nullptr;
  FakeWorkerOptions options;
  uint64_t incarnation = 0;

  std::atomic<bool> dead{false};
  std::atomic<bool> mute{false};
  std::function<void()> die;  // returns at once
  std::atomic<int> decode_streams{0};
  std::atomic<int> prefill_streams{0};
  std::atomic<int> open_streams{0};

  base::Mutex mutex;
  base::CondVar changed;
  worker::v1::WorkerLoad load ABSL_GUARDED_BY(mutex);
  uint64_t load_version ABSL_GUARDED_BY(mutex) = 1;
  std::vector<worker::v1::Generation> seen ABSL_GUARDED_BY(mutex);

  FakeAction Ask(FakePoint point, const worker::v1::Generation& generation, int32_t index) {
    return options.script ? options.script({point, generation, index}) : FakeAction::Go();
  }
  void Saw(const worker::v1::Generation& generation) {
    base::MutexLock lock(&mutex);
    seen.push_back(generation);
  }
};

// The token after `history`, as every fake worker draws it.
worker::v1::Token FakeToken(const FakeWorkerState& state, const worker::v1::Generation& generation,
                            const std::vector<int32_t>& history);
// Gives it this worker's estimate of the end, if it was asked for and has one.
void FakeEstimate(const FakeWorkerState& state, const worker::v1::Generation& generation,
                  worker::v1::Token* token);
// Whether `token` ends the request, as the engine would decide.
std::optional<worker::v1::Ending> FakeEndingOf(const FakeWorkerState& state,
                                               const worker::v1::Generation& generation,
                                               const worker::v1::Token& token);
// What a beam search finds: answer i has i + 2 tokens of the model behind the prompt, each other
// one with EOS behind them, and the score -1 - i / 4.
worker::v1::DecodeFinal FakeBeams(const FakeWorkerState& state,
                                  const worker::v1::Generation& generation);
// The scores that `generation` asks for, two in a message: the token at index i has the logprob
// -i / 8.
std::vector<worker::v1::PromptScores> FakeScores(const worker::v1::Generation& generation);
std::vector<int32_t> FakeHistory(const worker::v1::Generation& generation);

}  // namespace baton::testing
