// The real engines with all their threads: clients that stream, cancel, hand over and replay.
// Schedules are not reproducible here, tokens are: each request must get what it gets undisturbed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/sanitized.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_worker.h"

namespace baton::sim {
namespace {

constexpr int32_t kRequestsPerClient = kSanitized ? 25 : 150;
constexpr int32_t kClients = 8;
constexpr auto kPatience = std::chrono::seconds(60);

using Mailbox = base::BoundedQueue<SequenceEvent>;

// One engine, and the thread that sorts its events into the mailboxes of its streams.
class Worker {
 public:
  Worker(const EngineOptions& options, const FakeModelOptions& model, int32_t num_blocks)
      : arena_(num_blocks), host_arena_(options.swap_blocks) {
    auto runner = std::make_unique<FakeRunner>(arena_.kv(), model, nullptr, host_arena_.kv());
    auto engine = Engine::Start(options, arena_.kv(), std::move(runner), &clock_);
    BATON_CHECK(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
    pump_ = std::thread([this] { Pump(); });
  }
  ~Worker() {
    engine_->Stop();
    pump_.join();
  }

  Engine& engine() { return *engine_; }
  const kernels::KvLayout& layout() const { return arena_.kv().layout; }

  // Under the lock that the pump takes too, so that no event comes before its mailbox.
  absl::StatusOr<SequenceId> Open(SequenceSpec spec, const std::shared_ptr<Mailbox>& mailbox) {
    const std::lock_guard lock(mutex_);
    auto id = engine_->Admit(std::move(spec));
    if (id.ok()) mailboxes_[*id] = mailbox;
    return id;
  }

 private:
  void Pump() {
    while (auto event = engine_->events().PopUntil(base::kNever)) {
      auto* const of_sequence = std::get_if<SequenceEvent>(&*event);
      if (of_sequence == nullptr) continue;
      const std::lock_guard lock(mutex_);
      mailboxes_.at(of_sequence->sequence)->PushReserved(std::move(*of_sequence));
    }
  }

  base::SteadyClock clock_;
  FakeArena arena_;
  FakeArena host_arena_;  // of its swap space
  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::map<SequenceId, std::shared_ptr<Mailbox>> mailboxes_;  // kept: late Detach events
  std::thread pump_;
};

// One attempt's stream to one worker, as its service would see it.
struct Stream {
  Worker* worker = nullptr;
  SequenceId id;
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>(1);
  bool over = false, lease_out = false, detached = false;
  FinishReason reason = FinishReason::kNone;
  bool replay = false;  // refused or revoked
  std::optional<ReservedEvent> reserved;
  std::map<int32_t, std::span<std::byte>> ready;
  std::vector<SampledToken> tokens;

  bool Open(Worker* to, SequenceSpec spec) {
    worker = to;
    auto opened = to->Open(std::move(spec), mailbox);
    if (opened.ok()) {
      id = *opened;
      return true;
    }
    over = replay = true;
    BATON_CHECK(ReasonOf(opened.status()) == Reason::kFull) << opened.status().ToString();
    return false;
  }
  void TakeOne() {
    auto event = mailbox->PopUntil(std::chrono::steady_clock::now() + kPatience);
    const EngineFigures figures = worker->engine().figures();
    BATON_CHECK(event.has_value())
        << "nothing came within the test's patience: running " << figures.running << " waiting "
        << figures.waiting << " reserved " << figures.reserved << " free " << figures.blocks_free
        << " cached " << figures.blocks_cached << " quarantined " << figures.blocks_quarantined
        << " used " << figures.blocks_used;
    std::visit([this](auto& what) { Take(what); }, event->what);
  }
  template <typename Done>
  void TakeUntil(Done done) {
    while (!over && !done()) TakeOne();
  }
  // Leaves the stream as a service does: nothing of it may stay behind.
  void Close(Dice* dice) {
    if (!over) {
      worker->engine().Cancel(id);
      while (!over) TakeOne();
    }
    // A lease that ended early is announced by Detach; one of a finished prefill is simply ours.
    if (lease_out) {
      const bool finished_prefill = reason == FinishReason::kNone && !reserved && !replay;
      while (!finished_prefill && !detached && reason != FinishReason::kStopEos &&
             reason != FinishReason::kLength) {
        TakeOne();
      }
      for (int32_t i = dice->Int(0, 20); i > 0; --i) std::this_thread::yield();
      worker->engine().ReturnLease(id);
      lease_out = false;
    }
  }

 private:
  void Take(ReservedEvent& event) {
    lease_out = true;
    reserved = std::move(event);
  }
  void Take(RefusedEvent&) { over = replay = true; }
  void Take(StateEvent&) {}
  void Take(BlocksReadyEvent& event) {
    lease_out = true;
    for (const LeasedBlock& block : event.blocks) ready[block.ordinal] = block.bytes;
  }
  void Take(ScoresEvent&) {}
  void Take(TokenEvent& event) { tokens.push_back(std::move(event.token)); }
  void Take(FinishedEvent& event) {
    over = true;
    reason = event.reason;
  }
  void Take(RevokedEvent&) { over = replay = true; }
  void Take(DetachEvent&) { detached = true; }
};

struct Counts {
  std::atomic<int32_t> finished{0}, cancelled{0}, replays{0}, imported{0};
};

class Client {
 public:
  Client(uint64_t seed, Worker* prefill, Worker* decode, const FakeModelOptions* model,
         Counts* counts)
      : dice_(seed), prefill_(prefill), decode_(decode), model_(model), counts_(counts) {}

  void Run() {
    for (int32_t i = 0; i < kRequestsPerClient; ++i) OneRequest();
  }

 private:
  enum class Outcome { kFinished, kCancelled, kReplay };

  void OneRequest() {
    SequenceSpec spec;
    const int32_t family = dice_.Int(0, 3);
    for (int32_t i = dice_.Int(1, 30); i > 0; --i) spec.prompt.push_back(4 + family * 50 + i);
    spec.sampling.seed = static_cast<uint64_t>(dice_.Int(1, 1000));
    spec.stop.max_tokens = dice_.Int(1, 30);
    const Expected expected = Predict(*model_, decode_->layout(), spec, {2}, spec.stop.max_tokens);
    std::vector<TokenId> accepted;
    while (true) {
      spec.generated = accepted;
      const bool local = dice_.Chance(30);
      const Outcome outcome = local ? Local(spec, &accepted) : Split(spec, &accepted);
      ASSERT_LE(accepted.size(), expected.tokens.size());
      for (size_t i = 0; i < accepted.size(); ++i) ASSERT_EQ(accepted[i], expected.tokens[i]) << i;
      if (outcome == Outcome::kCancelled) {
        ++counts_->cancelled;
        return;
      }
      if (outcome == Outcome::kFinished) {
        ASSERT_EQ(accepted.size(), expected.tokens.size());
        ++counts_->finished;
        return;
      }
      ++counts_->replays;
    }
  }

  static void Accept(const Stream& stream, std::vector<TokenId>* accepted) {
    for (const SampledToken& token : stream.tokens) accepted->push_back(token.token);
  }

  Outcome Local(const SequenceSpec& spec, std::vector<TokenId>* accepted) {
    Stream stream;
    if (!stream.Open(decode_, spec)) return Outcome::kReplay;
    const bool cancel = dice_.Chance(15);
    const auto patience = static_cast<size_t>(dice_.Int(0, 5));
    stream.TakeUntil([&] { return cancel && stream.tokens.size() >= patience; });
    return Finish(&stream, accepted);
  }

  Outcome Finish(Stream* stream, std::vector<TokenId>* accepted) {
    stream->Close(&dice_);
    Accept(*stream, accepted);
    if (stream->replay) return Outcome::kReplay;
    return stream->reason == FinishReason::kAborted ? Outcome::kCancelled : Outcome::kFinished;
  }

  Outcome Split(SequenceSpec spec, std::vector<TokenId>* accepted) {
    Stream decode, prefill;
    spec.kind = SequenceKind::kReserved;
    if (!decode.Open(decode_, spec)) return Outcome::kReplay;
    decode.TakeUntil([&] { return decode.reserved.has_value() || dice_.Chance(3); });
    if (decode.over || !decode.reserved) return Finish(&decode, accepted);
    spec.kind = SequenceKind::kPrefill;
    if (!prefill.Open(prefill_, spec)) {
      decode.Close(&dice_);
      return Outcome::kReplay;
    }
    const bool cancel = dice_.Chance(10);
    prefill.TakeUntil([&] { return cancel && !prefill.ready.empty(); });
    const bool push = prefill.over && prefill.reason == FinishReason::kNone;
    if (push) Push(&decode, prefill);
    prefill.Close(&dice_);
    Accept(prefill, accepted);
    const bool cancelled = prefill.reason == FinishReason::kNone && !push;  // it came too late
    if (prefill.reason == FinishReason::kAborted || cancelled) {
      decode.Close(&dice_);
      return Outcome::kCancelled;
    }
    if (prefill.reason != FinishReason::kNone) {  // its token was the end
      decode.Close(&dice_);
      return Outcome::kFinished;
    }
    const bool leave = dice_.Chance(10);
    decode.TakeUntil([&] { return leave && decode.tokens.size() >= 2; });
    return Finish(&decode, accepted);
  }

  // Writes into the lease also if it was revoked meanwhile: quarantine makes that harmless.
  void Push(Stream* decode, const Stream& prefill) {
    for (const LeasedBlock& target : decode->reserved->lease) {
      const auto source = prefill.ready.at(target.ordinal);
      std::memcpy(target.bytes.data(), source.data(), source.size());
    }
    decode->worker->engine().CommitImport(decode->id, prefill.tokens.at(0));
    decode->lease_out = false;
    ++counts_->imported;
  }

  Dice dice_;
  Worker* const prefill_;
  Worker* const decode_;
  const FakeModelOptions* const model_;
  Counts* const counts_;
};

void ExpectNothingLeft(Engine* engine) {
  EngineFigures figures;
  EXPECT_TRUE(Eventually(
      [&] {
        figures = engine->figures();
        return figures.blocks_free + figures.blocks_cached == figures.blocks_total &&
               figures.swap_blocks_used == 0;
      },
      kPatience));
  EXPECT_EQ(figures.running + figures.waiting + figures.reserved, 0);
}

TEST(EngineSimTest, ConcurrentClientsGetUndisturbedTokensAndLeaveNothing) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Dice dice(seed);
    FakeModelOptions model{.vocab_size = 500, .eos_permille = 40};
    EngineOptions options;
    options.max_model_len = 60;
    options.max_num_seqs = dice.Int(3, 8);
    options.max_prefill_tokens = dice.Int(4, 40);
    options.max_num_batched_tokens = dice.Int(2, 40);
    options.enable_prefix_caching = seed != 2;
    options.overlap = seed % 2 == 0;
    options.max_num_queued_reqs = 6;
    options.eos_ids = {2};
    options.vocab_size = 500;
    Counts counts;
    Worker prefill(options, model, 40);
    options.swap_blocks = seed > 2 ? 12 : 0;
    Worker decode(options, model, 15);
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        Client(seed * 100 + static_cast<uint64_t>(i), &prefill, &decode, &model, &counts).Run();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ExpectNothingLeft(&prefill.engine());
    ExpectNothingLeft(&decode.engine());
    std::printf(
        "seed %d: finished %d, cancelled %d, replays %d, imported %d, preemptions %d "
        "(swapped %d)\n",
        static_cast<int>(seed), counts.finished.load(), counts.cancelled.load(),
        counts.replays.load(), counts.imported.load(),
        static_cast<int>(decode.engine().figures().preemptions),
        static_cast<int>(decode.engine().figures().swaps));
    const bool overlapped =
        decode.engine().figures().rows_ahead > 0 && prefill.engine().figures().steps_overlapped > 0;
    EXPECT_EQ(overlapped, options.overlap);
    EXPECT_GT(counts.imported, 0);
    EXPECT_GT(counts.cancelled, 0);
    EXPECT_EQ(counts.finished + counts.cancelled, kClients * kRequestsPerClient);
  }
}

}  // namespace
}  // namespace baton::sim
