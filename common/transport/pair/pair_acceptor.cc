#include "common/transport/pair/pair_acceptor.h"

#include <utility>

#include "common/base/status.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr auto kAcceptTick = std::chrono::milliseconds(50);

}  // namespace

PairAcceptor::PairAcceptor(const PairLimits& limits, PairHello self, const base::Clock* clock,
                           TransportProbe* probe)
    : self_(std::move(self)),
      clock_(clock),
      probe_(probe),
      machine_(limits, PairEpoch{.incarnation = self_.incarnation,
                                 .version = self_.version,
                                 .parcel_bytes = limits.parcel_bytes}),
      timers_(clock) {}

absl::StatusOr<std::unique_ptr<PairAcceptor>> PairAcceptor::Start(PairParts parts, PairHello self,
                                                                  const base::Clock* clock,
                                                                  TransportProbe* probe) {
  self.way = parts.communicators->way();
  self.version = parts.communicators->version();
  self.checksum = parts.checksum;
  std::unique_ptr<PairAcceptor> acceptor(
      new PairAcceptor(parts.limits, std::move(self), clock, probe));
  PairAcceptor* const raw = acceptor.get();
  // The communicators go to the device, which lives as long as this.
  acceptor->check_version_ = [communicators = parts.communicators.get()](int version) {
    return communicators->CheckPeer(version);
  };
  BATON_ASSIGN_OR_RETURN(
      acceptor->device_,
      PairDevice::Start(
          {.memory = std::move(parts.memory),
           .communicators = std::move(parts.communicators),
           .checksum = parts.checksum,
           .find_inbox = [raw](const Ticket& ticket) { return raw->pushes_.Find(ticket); },
           .on_event =
               [raw](DeviceEvent event) {
                 raw->Drive(
                     [&](PairReceiver* machine, base::Instant now, PairReceiver::Actions* actions) {
                       machine->OnDevice(event, now, actions);
                     });
               }}));
  acceptor->Schedule();
  return acceptor;
}

PairAcceptor::~PairAcceptor() { timers_.Stop(); }

void PairAcceptor::Schedule() {
  timers_.After(kAcceptTick, [this] {
    Drive([](PairReceiver* machine, base::Instant now, PairReceiver::Actions* actions) {
      machine->Tick(now, actions);
    });
    Schedule();
  });
}

absl::Status PairAcceptor::Check(const PairHello& hello) const {
  if (hello.way != self_.way) {
    return absl::FailedPreconditionError("the prefill worker moves KV by " + hello.way +
                                         ", the decode worker by " + self_.way +
                                         "; give both the same --kv-transport");
  }
  BATON_RETURN_IF_ERROR(check_version_(hello.version));
  if (self_.checksum && !hello.checksum) {
    return absl::FailedPreconditionError(
        "the prefill worker sends no checksums, the decode worker compares them; give "
        "--no-kv-checksum to both or to neither");
  }
  if (hello.model_fingerprint != self_.model_fingerprint ||
      !CanHandOver(hello.shape, self_.shape)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kLayoutMismatch},
                     "the sender has model " + hello.model_fingerprint + " with " +
                         hello.shape.Describe() + "; this worker has " + self_.model_fingerprint +
                         " with " + self_.shape.Describe());
  }
  return absl::OkStatus();
}

absl::StatusOr<PairId> PairAcceptor::OnHello(const PairHello& hello, PeerPort port) {
  BATON_RETURN_IF_ERROR(Check(hello));
  PairId pair = 0;
  {
    base::MutexLock lock(&mutex_);
    pair = next_pair_++;
    peers_[pair] = std::move(port);
  }
  Drive([&](PairReceiver* machine, base::Instant now, PairReceiver::Actions* actions) {
    machine->OnPeer(pair, now, actions);
  });
  return pair;
}

void PairAcceptor::OnMessage(PairId pair, const ToReceiver& message) {
  Drive([&](PairReceiver* machine, base::Instant now, PairReceiver::Actions* actions) {
    machine->OnMessage(pair, message, now, actions);
  });
}

void PairAcceptor::Closed(PairId pair) {
  {
    base::MutexLock lock(&mutex_);
    peers_.erase(pair);
  }
  Drive([&](PairReceiver* machine, base::Instant now, PairReceiver::Actions* actions) {
    machine->OnControlClosed(pair, now, actions);
  });
}

void PairAcceptor::Drive(
    const std::function<void(PairReceiver*, base::Instant, PairReceiver::Actions*)>& step) {
  base::MutexLock lock(&mutex_);
  PairReceiver::Actions actions;
  step(&machine_, clock_->Now(), &actions);
  // Under the lock, so that streams and the device get them in order; none of it blocks.
  for (ReceiverAction& action : actions) Apply(std::move(action));
}

void PairAcceptor::Apply(ReceiverAction action) {
  if (auto* command = std::get_if<DeviceCommand>(&action)) {
    device_->Post(std::move(*command));
  } else if (auto* tell = std::get_if<TellSender>(&action)) {
    const auto peer = peers_.find(tell->pair);
    if (peer != peers_.end()) peer->second.send(tell->message);
  } else if (auto* end = std::get_if<EndPeer>(&action)) {
    const auto peer = peers_.find(end->pair);
    if (peer == peers_.end()) return;
    peer->second.end(end->refused ? absl::ResourceExhaustedError(end->why)
                                  : absl::UnavailableError(end->why));
  } else if (auto* news = std::get_if<ReceiverNews>(&action)) {
    Note(*news);
  } else if (auto* bytes = std::get_if<BytesReceived>(&action)) {
    probe_->PairBytes(bytes->bytes);
  }
}

void PairAcceptor::Note(const ReceiverNews& news) {
  probe_->PairHappened(news.event);
  if (news.event == PairEvent::kDeviceLost) {
    spdlog::error("pairs of devices are given up: {}", news.why);
  } else if (!news.why.empty()) {
    spdlog::warn("device pair {}: {}", news.pair, news.why);
  }
}

}  // namespace baton
