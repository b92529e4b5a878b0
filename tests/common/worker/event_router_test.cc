#include "common/worker/event_router.h"

#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_runner.h"

namespace baton {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

class CountingSink final : public SequenceSink {
 public:
  void OnEvent(const SequenceEvent& event) override {
    base::MutexLock lock(&mutex_);
    events_.push_back(event);
    changed_.NotifyAll();
  }
  void OnEngineFault(const absl::Status& status) override {
    base::MutexLock lock(&mutex_);
    fault_ = status;
    changed_.NotifyAll();
  }
  template <typename Event>
  bool WaitFor() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    base::MutexLock lock(&mutex_);
    for (;;) {
      for (const SequenceEvent& event : events_) {
        if (std::holds_alternative<Event>(event.what)) return true;
      }
      if (!changed_.WaitUntil(&mutex_, deadline)) return false;
    }
  }
  bool WaitForFault() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    base::MutexLock lock(&mutex_);
    while (fault_.ok()) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<SequenceEvent> events_;
  absl::Status fault_;
};

struct Fixture {
  Fixture() {
    EngineOptions options;
    options.max_model_len = 256;
    options.vocab_size = 1000;
    engine = *Engine::Start(options, arena.kv(),
                            std::make_unique<FakeRunner>(arena.kv(), FakeModelOptions{}, control),
                            &clock);
    router = std::make_unique<EventRouter>(engine.get(), EventRouter::Listeners{});
  }
  ~Fixture() { engine->Stop(); }
  static SequenceSpec Spec(SequenceKind kind) {
    SequenceSpec spec;
    spec.kind = kind;
    spec.prompt = {5, 6, 7, 8, 9};
    spec.stop.max_tokens = 4;
    return spec;
  }
  bool AllBlocksBack() {
    return Eventually(
        [this] {
          const EngineFigures f = engine->figures();
          return f.blocks_free + f.blocks_cached == f.blocks_total;
        },
        std::chrono::seconds(20));
  }

  base::SteadyClock clock;
  FakeArena arena{64};
  std::shared_ptr<FakeRunnerControl> control = std::make_shared<FakeRunnerControl>();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EventRouter> router;
};

TEST(EventRouterTest, TellsTheIdBeforeAnyEvent) {
  Fixture f;
  auto sink = std::make_shared<CountingSink>();
  SequenceId told;
  const auto id =
      f.router->Admit(f.Spec(SequenceKind::kLocal), sink, [&](SequenceId i) { told = i; });
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(told, *id);
  EXPECT_TRUE(sink->WaitFor<TokenEvent>());
  EXPECT_TRUE(sink->WaitFor<FinishedEvent>());
}

TEST(EventRouterTest, ReturnsTheLeaseOfASequenceNobodyWatches) {
  Fixture f;
  auto sink = std::make_shared<CountingSink>();
  const auto id = f.router->Admit(f.Spec(SequenceKind::kReserved), sink, [](SequenceId) {});
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(sink->WaitFor<ReservedEvent>());
  f.router->Forget(*id);
  f.engine->Cancel(*id);
  EXPECT_TRUE(f.AllBlocksBack());
}

TEST(EventRouterTest, AFaultReachesEverySinkAndRefusesWhatComesAfter) {
  Fixture f;
  f.control->FailNextStep();
  auto sink = std::make_shared<CountingSink>();
  ASSERT_TRUE(f.router->Admit(f.Spec(SequenceKind::kLocal), sink, [](SequenceId) {}).ok());
  EXPECT_TRUE(sink->WaitForFault());
  EXPECT_FALSE(f.router->Admit(f.Spec(SequenceKind::kLocal), sink, [](SequenceId) {}).ok());
}

}  // namespace
}  // namespace baton
