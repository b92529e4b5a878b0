#include "tests/fakes/pair_sim.h"

#include "common/transport/pair/pair_parcel.h"
#include "tests/fakes/pair_sim_parts.h"

namespace baton {

using std::chrono::microseconds;
using std::chrono::milliseconds;

PairSim::PairSim(const Options& options) : options_(options), random_(options.seed) {
  for (int i = 0; i < options.senders; ++i) {
    senders_.push_back(std::make_shared<Sender>());
    StartSender(i);
  }
  for (int i = 0; i < options.receivers; ++i) {
    receivers_.push_back(std::make_shared<Receiver>());
    StartReceiver(i);
  }
}

// Devices and their communicators know each other.
PairSim::~PairSim() {
  for (const auto& [id, comm] : comms_) *comm = Comm();
}

void PairSim::At(base::Duration delay, std::function<void()> what) {
  queue_.push({now_ + delay, next_order_++, std::move(what)});
}

base::Duration PairSim::Some(int max_us) {
  return microseconds(std::uniform_int_distribution<int>(1, max_us)(random_));
}

void PairSim::Broken(std::string what) {
  if (violations.size() < 20) violations.push_back(std::move(what));
}

void PairSim::Advance(base::Instant until) {
  while (!queue_.empty() && queue_.top().when <= until && violations.empty()) {
    const Later next = queue_.top();
    queue_.pop();
    now_ = next.when;
    next.what();
  }
  now_ = until;
}

void PairSim::Run(base::Duration faulty) {
  const base::Instant calm = now_ + faulty;
  while (now_ < calm && violations.empty()) {
    NewPush();
    if (Chance(0.3)) TickAll();
    Advance(now_ + Some(60'000));
  }
  faulty_ = false;
  const base::Instant end = now_ + std::chrono::minutes(1);
  while (now_ < end && violations.empty()) {
    TickAll();
    Advance(now_ + milliseconds(50));
  }
  CheckEnd();
}

void PairSim::StartSender(int index) {
  Sender& node = *senders_[static_cast<size_t>(index)];
  ++node.life;
  node.device = std::make_shared<Device>(Device{.is_sender = true, .node = index});
  node.machine = std::make_unique<PairSender>(options_.limits, PairHello{});
}

void PairSim::StartReceiver(int index) {
  Receiver& node = *receivers_[static_cast<size_t>(index)];
  ++node.life;
  node.incarnation = next_id_++;
  node.device = std::make_shared<Device>(Device{.is_sender = false, .node = index});
  node.machine = std::make_unique<PairReceiver>(
      options_.limits,
      PairEpoch{.incarnation = node.incarnation, .parcel_bytes = options_.limits.parcel_bytes});
}

void PairSim::TickAll() {
  for (int i = 0; i < options_.senders; ++i) {
    if (Chance(options_.restarts)) RestartSender(i);
    std::vector<SenderAction> actions;
    senders_[static_cast<size_t>(i)]->machine->Tick(now_, &actions);
    Apply(i, std::move(actions));
  }
  for (int i = 0; i < options_.receivers; ++i) {
    if (Chance(options_.restarts)) RestartReceiver(i);
    std::vector<ReceiverAction> actions;
    receivers_[static_cast<size_t>(i)]->machine->Tick(now_, &actions);
    Apply(i, std::move(actions));
  }
  for (const auto& sender : senders_) {
    std::vector<std::shared_ptr<Stream>> broken;
    for (const auto& [pair, stream] : sender->streams) {
      if (Chance(options_.breaks_control)) broken.push_back(stream);
    }
    for (const auto& stream : broken) CloseStream(stream, false);
  }
}

// A process dies: its streams break, its communicators fall silent, its memory is gone.
void PairSim::RestartSender(int index) {
  Sender& node = *senders_[static_cast<size_t>(index)];
  ++restarted;
  node.device->dead = true;
  for (auto& [id, push] : states_) {
    if (push->sender == index && push->life == node.life) push->orphaned = true;
  }
  const auto streams = node.streams;
  StartSender(index);
  for (const auto& [pair, stream] : streams) CloseStream(stream, false);
}

void PairSim::RestartReceiver(int index) {
  Receiver& node = *receivers_[static_cast<size_t>(index)];
  ++restarted;
  node.device->dead = true;
  const auto streams = node.streams;
  StartReceiver(index);
  for (const auto& [pair, stream] : streams) CloseStream(stream, false);
}

void PairSim::Apply(int index, std::vector<SenderAction> actions) {
  Sender& node = *senders_[static_cast<size_t>(index)];
  for (SenderAction& action : actions) {
    if (auto* open = std::get_if<OpenControl>(&action)) {
      OpenStream(index, open->pair, open->address);
    } else if (auto* close = std::get_if<CloseControl>(&action)) {
      if (node.streams.contains(close->pair)) CloseStream(node.streams.at(close->pair), false);
    } else if (auto* tell = std::get_if<TellReceiver>(&action)) {
      if (node.streams.contains(tell->pair)) {
        ToReceiverSide(node.streams.at(tell->pair), std::move(tell->message));
      }
    } else if (auto* command = std::get_if<DeviceCommand>(&action)) {
      Command(node.device, std::move(*command));
    } else if (auto* done = std::get_if<PartsDone>(&action)) {
      Settle(done->push, done->parts, true);
    } else if (auto* back = std::get_if<PartsReturned>(&action)) {
      Settle(back->push, back->parts, false);
    } else if (auto* released = std::get_if<PushReleased>(&action)) {
      PushState& push = *states_.at(released->push);
      if (!push.ended || push.released) Broken("a push was released twice or too early");
      push.released = true;
    } else if (auto* news = std::get_if<PairNews>(&action)) {
      if (news->event == PairEvent::kBuilt) ++built;
      if (news->event == PairEvent::kRebuilt) ++rebuilt;
      if (news->event == PairEvent::kAborted) ++aborted;
      if (news->event == PairEvent::kFallenBack) ++fallen;
      if (news->event == PairEvent::kClosed) ++closed;
      if (news->event == PairEvent::kDeviceLost) ++lost;
    }
  }
}

void PairSim::Apply(int index, std::vector<ReceiverAction> actions) {
  Receiver& node = *receivers_[static_cast<size_t>(index)];
  most_pairs = std::max(most_pairs, node.machine->peers());
  for (ReceiverAction& action : actions) {
    if (auto* tell = std::get_if<TellSender>(&action)) {
      if (node.streams.contains(tell->pair)) {
        ToSenderSide(node.streams.at(tell->pair), std::move(tell->message));
      }
    } else if (auto* end = std::get_if<EndPeer>(&action)) {
      if (node.streams.contains(end->pair)) CloseStream(node.streams.at(end->pair), end->refused);
    } else if (auto* command = std::get_if<DeviceCommand>(&action)) {
      Command(node.device, std::move(*command));
    } else if (auto* news = std::get_if<ReceiverNews>(&action)) {
      if (news->event == PairEvent::kDeviceLost) ++lost;
    }
  }
}

// --- Control streams: ordered, delayed, breakable. ---

void PairSim::OpenStream(int sender, PairId pair, const std::string& address) {
  auto stream = std::make_shared<Stream>();
  stream->sender = sender;
  stream->receiver = std::stoi(address);
  stream->sender_pair = pair;
  stream->receiver_pair = next_id_++;
  senders_[static_cast<size_t>(sender)]->streams[pair] = stream;
  receivers_[static_cast<size_t>(stream->receiver)]->streams[stream->receiver_pair] = stream;
}

void PairSim::ToReceiverSide(const std::shared_ptr<Stream>& stream, ToReceiver message) {
  stream->to_receiver_at = std::max(stream->to_receiver_at, now_ + Some(2000));
  At(stream->to_receiver_at - now_, [this, stream, message = std::move(message)] {
    if (stream->closed) return;
    std::vector<ReceiverAction> actions;
    PairReceiver& machine = *receivers_[static_cast<size_t>(stream->receiver)]->machine;
    if (std::holds_alternative<PairHello>(message)) {
      machine.OnPeer(stream->receiver_pair, now_, &actions);
    } else {
      machine.OnMessage(stream->receiver_pair, message, now_, &actions);
    }
    Apply(stream->receiver, std::move(actions));
  });
}

void PairSim::ToSenderSide(const std::shared_ptr<Stream>& stream, ToSender message) {
  stream->to_sender_at = std::max(stream->to_sender_at, now_ + Some(2000));
  At(stream->to_sender_at - now_, [this, stream, message = std::move(message)] {
    if (stream->closed) return;
    std::vector<SenderAction> actions;
    senders_[static_cast<size_t>(stream->sender)]->machine->OnMessage(stream->sender_pair, message,
                                                                      now_, &actions);
    Apply(stream->sender, std::move(actions));
  });
}

// Each side hears of it in its own time; messages under way are lost or come before.
void PairSim::CloseStream(std::shared_ptr<Stream> stream, bool refused) {
  if (std::exchange(stream->closing, true)) return;
  const auto life = std::pair(senders_[static_cast<size_t>(stream->sender)]->life,
                              receivers_[static_cast<size_t>(stream->receiver)]->life);
  senders_[static_cast<size_t>(stream->sender)]->streams.erase(stream->sender_pair);
  receivers_[static_cast<size_t>(stream->receiver)]->streams.erase(stream->receiver_pair);
  At(Some(3000), [this, stream, refused, life] {
    stream->closed = true;
    Sender& node = *senders_[static_cast<size_t>(stream->sender)];
    if (node.life != life.first) return;
    std::vector<SenderAction> actions;
    node.machine->OnControlClosed(stream->sender_pair, refused, "broken", now_, &actions);
    Apply(stream->sender, std::move(actions));
  });
  At(Some(3000), [this, stream, life] {
    stream->closed = true;
    Receiver& node = *receivers_[static_cast<size_t>(stream->receiver)];
    if (node.life != life.second) return;
    std::vector<ReceiverAction> actions;
    node.machine->OnControlClosed(stream->receiver_pair, now_, &actions);
    Apply(stream->receiver, std::move(actions));
  });
}

// --- Pushes. ---

void PairSim::NewPush() {
  const int sender = std::uniform_int_distribution<int>(0, options_.senders - 1)(random_);
  const int receiver = std::uniform_int_distribution<int>(0, options_.receivers - 1)(random_);
  PairSender& machine = *senders_[static_cast<size_t>(sender)]->machine;
  const uint64_t incarnation = receivers_[static_cast<size_t>(receiver)]->incarnation;
  std::vector<SenderAction> actions;
  machine.Warm(std::to_string(receiver), incarnation, now_, &actions);
  Apply(sender, std::move(actions));
  const uint64_t id = next_id_++;
  auto push = std::make_shared<PushState>();
  push->id = id;
  push->sender = sender;
  push->receiver = receiver;
  push->life = senders_[static_cast<size_t>(sender)]->life;
  push->ticket = Ticket{.incarnation = incarnation};
  std::memcpy(push->ticket.secret.data(), &id, sizeof id);
  ++pushes;
  if (!machine.StartPush(id, std::to_string(receiver), push->ticket, now_)) return;
  ++through_pair;
  const int blocks = std::uniform_int_distribution<int>(1, 12)(random_);
  for (int i = 0; i < blocks; ++i) {
    const size_t bytes = std::uniform_int_distribution<size_t>(1, 6000)(random_);
    std::vector<std::byte>& source = push->source.emplace_back(bytes);
    for (std::byte& b : source) b = static_cast<std::byte>(random_());
    push->target.emplace_back(bytes);
    push->settled.push_back(0);
    push->done.push_back(0);
  }
  states_[id] = push;
  if (Chance(options_.cancels)) {
    At(Some(40'000), [this, push] {
      if (push->ended || push->orphaned) return;
      ++cancelled;
      push->cancelled = push->ended = true;
      std::vector<SenderAction> out;
      senders_[static_cast<size_t>(push->sender)]->machine->EndPush(push->id, now_, &out);
      Apply(push->sender, std::move(out));
    });
  }
  if (Chance(options_.detaches)) At(Some(40'000), [this, id] { Detach(id); });
  Feed(id);
}

void PairSim::Feed(uint64_t id) {
  const auto push = states_.at(id);
  if (push->ended || push->orphaned) return;
  std::vector<SourcePart> parts;
  const int count = std::uniform_int_distribution<int>(1, 5)(random_);
  for (int i = 0; i < count && push->fed < push->source.size(); ++i, ++push->fed) {
    // It comes in two parts, of which the first may be empty.
    const std::span<const std::byte> all(push->source[push->fed]);
    const auto ordinal = static_cast<int32_t>(push->fed);
    parts.push_back({ordinal, 0, {all.first(all.size() / 3), all.subspan(all.size() / 3)}});
  }
  std::vector<SenderAction> actions;
  senders_[static_cast<size_t>(push->sender)]->machine->Add(id, std::move(parts), now_, &actions);
  Apply(push->sender, std::move(actions));
  if (push->fed < push->source.size()) At(Some(10'000), [this, id] { Feed(id); });
}

void PairSim::Settle(uint64_t id, const std::vector<ParcelPart>& parts, bool done) {
  PushState& push = *states_.at(id);
  if (push.ended) return Broken("a part was settled after the end of its push");
  for (const ParcelPart& part : parts) {
    const auto block = static_cast<size_t>(part.ordinal);
    push.settled[block] += part.size;
    if (done) push.done[block] += part.size;
    if (!done) push.returned = true;
    if (push.settled[block] > static_cast<int64_t>(push.source[block].size())) {
      return Broken("a part was settled twice");
    }
    if (!done) continue;
    const auto at = static_cast<size_t>(part.offset);
    if (!push.detached && !std::equal(push.source[block].begin() + part.offset,
                                      push.source[block].begin() + part.offset + part.size,
                                      push.target[block].begin() + static_cast<long>(at))) {
      return Broken("a part that is done holds other bytes than its source");
    }
  }
  // The push ends in an event of its own, as that of a real one does.
  At(microseconds(0), [this, id] { EndIfSettled(id); });
}

void PairSim::EndIfSettled(uint64_t id) {
  const auto push = states_.at(id);
  if (push->ended || push->orphaned || push->fed < push->source.size()) return;
  for (size_t i = 0; i < push->source.size(); ++i) {
    if (push->settled[i] < static_cast<int64_t>(push->source[i].size())) return;
  }
  push->ended = true;
  push->returned ? ++returned : ++whole_through_pair;
  std::vector<SenderAction> actions;
  senders_[static_cast<size_t>(push->sender)]->machine->EndPush(id, now_, &actions);
  Apply(push->sender, std::move(actions));
}

void PairSim::Detach(uint64_t id) {
  const auto push = states_.at(id);
  push->detached = true;
  // Writes that run go on until their end; then the blocks are another's.
  if (push->writing == 0) push->freed = true;
}

void PairSim::CheckEnd() {
  for (const auto& [id, push] : states_) {
    if (push->orphaned) continue;
    if (!push->ended) Broken("push " + std::to_string(id) + " was never settled");
    if (push->ended && !push->released) Broken("push " + std::to_string(id) + " is not released");
    if (push->writing != 0) Broken("a copy never ended");
  }
  for (const auto& sender : senders_) {
    if (!sender->device->hung && sender->machine->device_lost()) {
      Broken("a device was given up that works");
    }
  }
}

}  // namespace baton
