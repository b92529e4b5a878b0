#include "router/placement/pair_warmups.h"

#include <algorithm>

#include "grpcpp/client_context.h"
#include "router/router_probe.h"
#include "router/workers/worker_link.h"

namespace baton {
namespace {

constexpr auto kAgain = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(5);
constexpr size_t kMaxRemembered = 4096;

// Whether both have one of the ways to move KV from device to device.
bool CanPairDevices(const WorkerFacts& prefill, const WorkerFacts& decode) {
  return std::ranges::any_of(prefill.kv_transports, [&](const std::string& way) {
    return std::ranges::find(decode.kv_transports, way) != decode.kv_transports.end();
  });
}

}  // namespace

struct PairWarmups::Call {
  grpc::ClientContext context;
  worker::v1::WarmPairRequest request;
  worker::v1::WarmPairResponse response;
  std::shared_ptr<WorkerLink> link;  // holds the stub
};

PairWarmups::~PairWarmups() {
  base::MutexLock lock(&mutex_);
  for (Call* call : calls_) call->context.TryCancel();
  while (!calls_.empty()) ended_.Wait(&mutex_);
}

bool PairWarmups::Due(const WorkerView& prefill, const WorkerView& decode) {
  if (!CanPairDevices(prefill.facts, decode.facts)) return false;
  if (std::ranges::find(prefill.warm_pairs, decode.facts.incarnation) != prefill.warm_pairs.end()) {
    return false;
  }
  const base::Instant now = clock_->Now();
  base::MutexLock lock(&mutex_);
  if (asked_.size() >= kMaxRemembered) asked_.clear();
  const auto [asked, first] =
      asked_.try_emplace({prefill.facts.incarnation, decode.facts.incarnation}, now);
  if (!first && now - asked->second < kAgain) return false;
  asked->second = now;
  return true;
}

void PairWarmups::Ask(const WorkerView& prefill, const WorkerView& decode) {
  if (!Due(prefill, decode)) return;
  auto* const call = new Call;
  call->link = prefill.link;
  call->context.set_deadline(std::chrono::system_clock::now() + kPatience);
  call->request.set_push_address(decode.facts.push_address.empty() ? decode.address
                                                                   : decode.facts.push_address);
  call->request.set_incarnation(decode.facts.incarnation);
  {
    base::MutexLock lock(&mutex_);
    calls_.insert(call);
  }
  call->link->prefill->async()->WarmPair(
      &call->context, &call->request, &call->response,
      [this, call](const grpc::Status& status) { Ended(call, status.ok()); });
}

void PairWarmups::Ended(Call* call, bool ok) {
  const std::unique_ptr<Call> owned(call);
  probe_->PairAsked(ok);
  base::MutexLock lock(&mutex_);
  calls_.erase(call);
  ended_.NotifyAll();
}

}  // namespace baton
