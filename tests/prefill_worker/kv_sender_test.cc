// What the sender of a push measures.
#include "prefill_worker/kv_sender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/worker/kv_shape_of.h"
#include "tests/fakes/fake_runner.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The real time and what a test skipped.
class SkippingClock final : public base::Clock {
 public:
  base::Instant Now() const override { return base::SteadyClock().Now() + skipped_.load(); }
  double UnixNow() const override { return base::SteadyClock().UnixNow(); }
  void Skip(base::Duration by) { skipped_ = skipped_.load() + by; }

 private:
  std::atomic<base::Duration> skipped_{base::Duration(0)};
};

// Takes everything at once; the test ends the push.
class OpenPush final : public KvPush {
 public:
  void Send(std::vector<KvSource> blocks) override { sent += static_cast<int>(blocks.size()); }
  void Progress(int32_t /*computed_tokens*/) override {}
  void Commit(PushCommitment commitment) override { committed = std::move(commitment); }
  void Cancel() override {}
  base::Instant waiting_since() const override { return base::kNever; }

  int sent = 0;
  std::optional<PushCommitment> committed;
};

class OneTransport final : public KvTransport {
 public:
  std::shared_ptr<KvPush> Open(const std::string& /*address*/, const PushHello& /*hello*/,
                               std::shared_ptr<KvPushObserver> /*observer*/) override {
    return push;
  }
  const std::shared_ptr<OpenPush> push = std::make_shared<OpenPush>();
};

struct TimesProbe final : WorkerProbe {
  void PushDone(int64_t pushed, base::Duration sent, base::Duration acked) override {
    bytes = pushed;
    sending = sent;
    committing = acked;
  }
  int64_t bytes = -1;
  base::Duration sending{-1};
  base::Duration committing{-1};
};

class KvSenderTest : public testing::Test {
 protected:
  KvSenderTest() {
    auto engine =
        Engine::Start({.max_model_len = 64, .max_num_seqs = 2, .vocab_size = 1000}, arena_.kv(),
                      std::make_unique<FakeRunner>(arena_.kv(), model_), &clock_);
    BATON_CHECK(engine.ok()) << engine.status().ToString();
    engine_ = *std::move(engine);
    const kernels::KvLayout& layout = arena_.kv().layout;
    const KvShape shape = KvShapeOf(layout, 1, layout.kv_heads, 1);
    core_ = std::make_unique<WorkerCore>(
        WorkerIdentity{.role = WorkerRole::kPrefill, .shape = shape}, engine_.get(), &clock_,
        WorkerTimeouts{}, &probe_, [](const absl::Status&) {});
  }

  // An open push of a prompt of which the decode worker holds `skip_blocks`.
  std::shared_ptr<KvSender> Open(int32_t skip_blocks) {
    auto sender = std::make_shared<KvSender>(core_.get(), skip_blocks, core_->identity().shape,
                                             [](const PushOutcome&) {});
    sender->Open(&transport_, "nowhere", Ticket{});
    return sender;
  }

  void Send(KvSender& sender, int32_t ordinal) {
    const kernels::PagedKv& kv = arena_.kv();
    const std::span<std::byte> bytes(kv.block(ordinal), kv.layout.block_bytes());
    sender.Send({LeasedBlock{.ordinal = ordinal, .bytes = bytes}}, kv.layout.block_size);
  }

  SkippingClock clock_;
  TimesProbe probe_;
  FakeModelOptions model_;
  FakeArena arena_{8};
  OneTransport transport_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<WorkerCore> core_;
};

TEST_F(KvSenderTest, SendingIsFromTheFirstBlocksToTheCommit) {
  const auto sender = Open(/*skip_blocks=*/1);
  clock_.Skip(seconds(60));  // the prompt waits and is computed
  Send(*sender, 0);          // which the decode worker holds
  clock_.Skip(seconds(60));
  Send(*sender, 1);
  clock_.Skip(seconds(2));
  Send(*sender, 2);
  clock_.Skip(seconds(1));
  sender->Commit(0, {}, 0);
  clock_.Skip(milliseconds(500));
  sender->OnPushDone(absl::OkStatus());
  EXPECT_EQ(transport_.push->sent, 2);
  EXPECT_EQ(probe_.bytes, 2 * static_cast<int64_t>(arena_.kv().layout.block_bytes()));
  EXPECT_GE(probe_.sending, seconds(3));
  EXPECT_LT(probe_.sending, seconds(60));
  EXPECT_GE(probe_.committing, milliseconds(500));
}

TEST_F(KvSenderTest, WhereNothingHasToBeSentSendingTakesNoTime) {
  const auto sender = Open(/*skip_blocks=*/2);
  clock_.Skip(seconds(60));
  Send(*sender, 0);
  Send(*sender, 1);
  clock_.Skip(seconds(60));
  sender->Commit(0, {}, 0);
  sender->OnPushDone(absl::OkStatus());
  ASSERT_TRUE(transport_.push->committed);
  EXPECT_EQ(transport_.push->committed->block_count, 0);
  EXPECT_EQ(probe_.sending, base::Duration(0));
}

}  // namespace
}  // namespace baton
