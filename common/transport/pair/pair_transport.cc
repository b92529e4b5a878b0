#include "common/transport/pair/pair_transport.h"

#include <utility>

#include "common/base/status.h"
#include "common/transport/pair/pair_call.h"
#include "common/transport/pair/pair_push.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);
// Cancelled streams and pushes end within moments.
constexpr auto kLastWords = std::chrono::seconds(5);

// The codes by which a receiver says that coming again soon is of no use.
bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

}  // namespace

PairTransport::PairTransport(const PairLimits& limits, const PairHello& hello,
                             std::unique_ptr<KvTransport> messages, ChannelOptions channel,
                             const base::Clock* clock, TransportProbe* probe, PushWay way)
    : messages_(std::move(messages)),
      clock_(clock),
      probe_(probe),
      way_(way),
      machine_(limits, hello),
      opener_(std::make_unique<ChannelOpener>(std::move(channel), /*max_kept=*/0)),
      timers_(clock) {}

absl::StatusOr<std::unique_ptr<PairTransport>> PairTransport::Start(
    PairParts parts, PairHello hello, std::unique_ptr<KvTransport> messages, ChannelOptions channel,
    const base::Clock* clock, TransportProbe* probe) {
  hello.way = parts.communicators->way();
  hello.version = parts.communicators->version();
  hello.checksum = parts.checksum;
  const PushWay way = hello.way == "nccl" ? PushWay::kNccl : PushWay::kCudaIpc;
  std::unique_ptr<PairTransport> transport(new PairTransport(
      parts.limits, hello, std::move(messages), std::move(channel), clock, probe, way));
  PairTransport* const raw = transport.get();
  BATON_ASSIGN_OR_RETURN(
      transport->device_,
      PairDevice::Start({.memory = std::move(parts.memory),
                         .communicators = std::move(parts.communicators),
                         .checksum = parts.checksum,
                         .find_inbox = [](const Ticket&) { return nullptr; },
                         .on_event =
                             [raw](DeviceEvent event) {
                               raw->Drive([&](PairSender* machine, base::Instant now,
                                              PairSender::Actions* actions) {
                                 machine->OnDevice(event, now, actions);
                               });
                             }}));
  transport->Schedule();
  return transport;
}

PairTransport::~PairTransport() {
  timers_.Stop();
  std::vector<std::shared_ptr<PairCall>> calls;
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    for (const auto& [pair, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) call->Close();
  if (!WaitQuiet(std::chrono::steady_clock::now() + kLastWords)) {
    spdlog::error("pushes or control streams of device pairs did not end");
  }
}

bool PairTransport::WaitQuiet(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (open_calls_ > 0 || !pushes_.empty() || telling_) {
    if (!changed_.WaitUntil(&mutex_, deadline)) return false;
  }
  return true;
}

void PairTransport::Schedule() {
  timers_.After(kTick, [this] {
    Drive([](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
      machine->Tick(now, actions);
    });
    Schedule();
  });
}

void PairTransport::Drive(
    const std::function<void(PairSender*, base::Instant, PairSender::Actions*)>& step) {
  {
    base::MutexLock lock(&mutex_);
    PairSender::Actions actions;
    step(&machine_, clock_->Now(), &actions);
    // Under the lock, so that streams and the device get them in order; none of it blocks.
    for (SenderAction& action : actions) Apply(std::move(action));
  }
  TellPushes();
}

void PairTransport::Apply(SenderAction action) {
  if (auto* command = std::get_if<DeviceCommand>(&action)) {
    device_->Post(std::move(*command));
  } else if (auto* open = std::get_if<OpenControl>(&action)) {
    OpenStream(*open);
  } else if (auto* tell = std::get_if<TellReceiver>(&action)) {
    const auto call = calls_.find(tell->pair);
    if (call != calls_.end()) call->second->Send(tell->message);
  } else if (auto* close = std::get_if<CloseControl>(&action)) {
    const auto call = calls_.find(close->pair);
    if (call != calls_.end()) call->second->Close();
  } else if (auto* news = std::get_if<PairNews>(&action)) {
    Note(*news);
  } else if (auto* waited = std::get_if<GrantWaited>(&action)) {
    probe_->GrantWaited(waited->waited);
    probe_->PairBytes(waited->bytes);
  } else {
    for_pushes_.push_back(std::move(action));
  }
}

void PairTransport::Note(const PairNews& news) {
  probe_->PairHappened(news.event);
  switch (news.event) {
    case PairEvent::kBuilt:
    case PairEvent::kRebuilt:
      return spdlog::info("device pair with {} is up", news.address);
    case PairEvent::kClosed:
      return spdlog::info("device pair with {} is closed", news.address);
    case PairEvent::kAborted:
      return spdlog::warn("device pair with {} aborted its epoch: {}", news.address, news.why);
    case PairEvent::kFallenBack:
    case PairEvent::kRefused:
      return spdlog::warn("no device pair with {} for now, pushes go by messages: {}", news.address,
                          news.why);
    case PairEvent::kDiscarded:
      return spdlog::info("a push to {} goes on by messages: {}", news.address, news.why);
    case PairEvent::kDeviceLost:
      return spdlog::error("pairs of devices are given up: {}", news.why);
  }
}

void PairTransport::OpenStream(const OpenControl& open) {
  const PairId pair = open.pair;
  const auto closed = [this, pair](const absl::Status& status) {
    Drive([&](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
      machine->OnControlClosed(pair, IsRefusal(status), std::string(status.message()), now,
                               actions);
    });
    base::MutexLock lock(&mutex_);
    calls_.erase(pair);
    --open_calls_;
    changed_.NotifyAll();
  };
  ++open_calls_;
  const auto message = [this, pair](const ToSender& what) {
    Drive([&](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
      machine->OnMessage(pair, what, now, actions);
    });
  };
  auto call = std::make_shared<PairCall>(PairCall::Listener{.message = message, .closed = closed});
  calls_[pair] = call;
  // The opener keeps none, so that nothing of it runs here, inside of the state machine.
  opener_->Open(open.address, [call](absl::StatusOr<std::shared_ptr<grpc::Channel>> channel) {
    if (!channel.ok()) return call->FailToStart(channel.status());
    call->Start(*channel, call);
  });
}

void PairTransport::TellPushes() {
  {
    base::MutexLock lock(&mutex_);
    if (telling_) return;  // who tells goes on until there is nothing left
    telling_ = true;
  }
  while (true) {
    SenderAction action;
    {
      base::MutexLock lock(&mutex_);
      if (for_pushes_.empty()) {
        telling_ = false;
        changed_.NotifyAll();
        return;
      }
      action = std::move(for_pushes_.front());
      for_pushes_.pop_front();
    }
    TellPush(action);
  }
}

void PairTransport::TellPush(const SenderAction& action) {
  const auto find = [this](PushId id) -> std::shared_ptr<PairPush> {
    base::MutexLock lock(&mutex_);
    const auto found = pushes_.find(id);
    return found == pushes_.end() ? nullptr : found->second;
  };
  if (const auto* done = std::get_if<PartsDone>(&action)) {
    if (const auto push = find(done->push)) push->OnParts(done->parts, /*done=*/true);
  } else if (const auto* returned = std::get_if<PartsReturned>(&action)) {
    if (const auto push = find(returned->push)) push->OnParts(returned->parts, /*done=*/false);
  } else if (const auto* released = std::get_if<PushReleased>(&action)) {
    if (const auto push = find(released->push)) push->OnReleased();
  }
}

void PairTransport::Forget(PushId push) {
  std::shared_ptr<PairPush> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto found = pushes_.find(push);
  if (found == pushes_.end()) return;
  dropped = std::move(found->second);
  pushes_.erase(found);
  changed_.NotifyAll();
}

std::shared_ptr<KvPush> PairTransport::Open(const std::string& address, const PushHello& hello,
                                            std::shared_ptr<KvPushObserver> observer) {
  std::shared_ptr<PairPush> push;
  {
    base::MutexLock lock(&mutex_);
    const PushId id = next_push_++;
    if (!stopping_ && machine_.StartPush(id, address, hello.ticket, clock_->Now())) {
      push = std::make_shared<PairPush>(this, id, observer, clock_);
      pushes_[id] = push;
    }
  }
  probe_->PushOpened(push == nullptr ? PushWay::kGrpc : way_);
  if (push == nullptr) return messages_->Open(address, hello, std::move(observer));
  push->SetMessages(messages_->Open(address, hello, push));
  return push;
}

void PairTransport::Warm(const std::string& address, uint64_t incarnation) {
  Drive([&](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
    if (!stopping_) machine->Warm(address, incarnation, now, actions);
  });
}

std::vector<uint64_t> PairTransport::warm() const {
  base::MutexLock lock(&mutex_);
  return machine_.warm();
}

void PairTransport::Add(PushId push, std::vector<SourcePart> parts) {
  Drive([&](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
    machine->Add(push, std::move(parts), now, actions);
  });
}

void PairTransport::End(PushId push) {
  Drive([&](PairSender* machine, base::Instant now, PairSender::Actions* actions) {
    machine->EndPush(push, now, actions);
  });
}

}  // namespace baton
