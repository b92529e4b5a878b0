#include "router/placement/pair_warmups.h"

#include <gtest/gtest.h>

#include <atomic>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "grpcpp/impl/service_type.h"
#include "router/router_probe.h"
#include "router/workers/worker_link.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

class FakePrefill final : public worker::v1::PrefillService::CallbackService {
 public:
  grpc::ServerUnaryReactor* WarmPair(grpc::CallbackServerContext* context,
                                     const worker::v1::WarmPairRequest* request,
                                     worker::v1::WarmPairResponse*) override {
    {
      base::MutexLock lock(&mutex_);
      requests_.push_back(*request);
    }
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  std::vector<worker::v1::WarmPairRequest> requests() {
    base::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  base::Mutex mutex_;
  std::vector<worker::v1::WarmPairRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

class PairWarmupsTest : public testing::Test {
 protected:
  PairWarmupsTest() {
    server_ = *RpcServer::Start({}, {&service_});
    prefill_.link = LinkTo(server_->address());
    decode_.link = LinkTo("127.0.0.1:7");
    decode_.address = decode_.link->address;
    prefill_.facts.incarnation = 11;
    decode_.facts.incarnation = 22;
    prefill_.facts.kv_transports = decode_.facts.kv_transports = {"nccl"};
  }
  static std::shared_ptr<WorkerLink> LinkTo(const std::string& address) {
    auto link = std::make_shared<WorkerLink>();
    link->address = address;
    link->prefill = worker::v1::PrefillService::NewStub(*MakeChannel(address, {}));
    return link;
  }
  double Counted(const char* outcome) {
    return registry_.counter(Metric::kRouterPairWarmups, {outcome}).Value();
  }

  base::ManualClock clock_;
  MetricsRegistry registry_{{.role = MetricRole::kRouter, .model_name = "m"}};
  RouterProbe probe_{&registry_};
  FakePrefill service_;
  std::unique_ptr<RpcServer> server_;
  WorkerView prefill_, decode_;
};

TEST_F(PairWarmupsTest, AsksThePrefillWorkerForAPairOnceASecond) {
  PairWarmups warmups(&probe_, &clock_);
  warmups.Ask(prefill_, decode_);
  warmups.Ask(prefill_, decode_);
  ASSERT_TRUE(Eventually([&] { return Counted("asked") == 1; }, std::chrono::seconds(20)));
  EXPECT_EQ(service_.requests().size(), 1u);
  EXPECT_EQ(service_.requests()[0].push_address(), "127.0.0.1:7");
  EXPECT_EQ(service_.requests()[0].incarnation(), 22u);
  clock_.Advance(std::chrono::seconds(2));
  decode_.facts.push_address = "elsewhere:9";
  warmups.Ask(prefill_, decode_);
  ASSERT_TRUE(Eventually([&] { return Counted("asked") == 2; }, std::chrono::seconds(20)));
  EXPECT_EQ(service_.requests()[1].push_address(), "elsewhere:9");
}

TEST_F(PairWarmupsTest, AWarmPairAndWorkersWithoutPairsAreLeftAlone) {
  {
    PairWarmups warmups(&probe_, &clock_);
    prefill_.warm_pairs = {5, 22};
    warmups.Ask(prefill_, decode_);
    prefill_.warm_pairs.clear();
    decode_.facts.kv_transports.clear();
    warmups.Ask(prefill_, decode_);
    decode_.facts.kv_transports = {"other"};
    warmups.Ask(prefill_, decode_);
  }
  EXPECT_TRUE(service_.requests().empty());
}

TEST_F(PairWarmupsTest, AQuestionThatDoesNotArriveIsCounted) {
  server_->Shutdown(std::chrono::milliseconds(0));
  PairWarmups warmups(&probe_, &clock_);
  warmups.Ask(prefill_, decode_);
  EXPECT_TRUE(Eventually([&] { return Counted("failed") == 1; }, std::chrono::seconds(20)));
}

TEST_F(PairWarmupsTest, ItsEndWaitsForQuestionsUnderWay) {
  for (int i = 0; i < 20; ++i) {
    PairWarmups warmups(&probe_, &clock_);
    warmups.Ask(prefill_, decode_);
  }
  EXPECT_EQ(Counted("asked") + Counted("failed"), 20);
}

}  // namespace
}  // namespace baton
