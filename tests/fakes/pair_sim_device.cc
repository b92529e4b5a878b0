// PairSim: device threads and communicators.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/transport/pair/pair_parcel.h"
#include "tests/fakes/pair_sim_parts.h"

namespace baton {

using std::chrono::microseconds;

void PairSim::Event(const std::shared_ptr<Device>& device, base::Duration delay,
                    DeviceEvent event) {
  At(delay, [this, device, event = std::move(event)] {
    if (device->dead) return;
    if (device->is_sender) {
      std::vector<SenderAction> actions;
      senders_[static_cast<size_t>(device->node)]->machine->OnDevice(event, now_, &actions);
      Apply(device->node, std::move(actions));
    } else {
      std::vector<ReceiverAction> actions;
      receivers_[static_cast<size_t>(device->node)]->machine->OnDevice(event, now_, &actions);
      Apply(device->node, std::move(actions));
    }
  });
}

void PairSim::Command(const std::shared_ptr<Device>& device, DeviceCommand command) {
  if (std::holds_alternative<AbandonDevice>(command)) {
    for (const DeviceCommand& left : device->commands) {
      if (const auto* send = std::get_if<SendParcel>(&left)) {
        Event(device, microseconds(1), ParcelGathered{send->key});
      }
    }
    device->commands.clear();
    return;
  }
  device->commands.push_back(std::move(command));
  RunNext(device);
}

// One command at a time; the thread hangs before one or in the middle.
void PairSim::RunNext(const std::shared_ptr<Device>& device) {
  if (device->busy || device->hung || device->dead || device->commands.empty()) return;
  device->busy = true;
  At(Some(500), [this, device] {
    if (device->dead) return;
    device->busy = false;
    if (device->commands.empty()) return;  // abandoned
    const DeviceCommand command = std::move(device->commands.front());
    device->commands.pop_front();
    Execute(device, command);
    RunNext(device);
  });
}

void PairSim::Execute(const std::shared_ptr<Device>& device, const DeviceCommand& command) {
  const bool hangs = Chance(options_.thread_hangs);
  if (const auto* send = std::get_if<SendParcel>(&command)) {
    Gather(device, *send);
    if (!hangs) Post(device, *send);
  } else if (const auto* deliver = std::get_if<DeliverParcel>(&command)) {
    Deliver(device, *deliver);  // it makes no call into a communicator
    return;
  }
  if (hangs) {
    device->hung = true;
    return;
  }
  if (const auto* make = std::get_if<MakeUniqueId>(&command)) {
    const bool fails = Chance(options_.fail_id);
    const std::string id = fails ? "" : "id-" + std::to_string(next_id_++);
    if (!fails) comms_[id] = std::make_shared<Comm>();
    Event(device, Some(100),
          UniqueIdMade{make->pair, make->epoch, id,
                       fails ? absl::InternalError("no id") : absl::OkStatus()});
  } else if (const auto* connect = std::get_if<Connect>(&command)) {
    ConnectSide(device, *connect);
  } else if (const auto* receive = std::get_if<ReceiveParcel>(&command)) {
    Post(device, *receive);
  } else if (const auto* abort = std::get_if<AbortPair>(&command)) {
    BeginAbort(device, *abort);
  }
}

void PairSim::ConnectSide(const std::shared_ptr<Device>& device, const Connect& command) {
  const auto found = comms_.find(command.unique_id);
  if (found == comms_.end()) return Broken("connect with an unknown id");
  const std::shared_ptr<Comm> comm = found->second;
  if (comm->joined[command.rank]) return Broken("a rank joined twice");
  comm->joined[command.rank] = true;
  comm->devices[command.rank] = device;
  comm->pairs[command.rank] = command.pair;
  comm->epochs[command.rank] = command.epoch;
  device->comms[{command.pair, command.epoch}] = comm;
  if (Chance(options_.fail_connect)) {
    return Event(device, Some(1000),
                 Connected{command.pair, command.epoch, absl::InternalError("no connection")});
  }
  if (!comm->joined[0] || !comm->joined[1] || comm->gone[0] || comm->gone[1]) return;
  for (int rank = 0; rank < 2; ++rank) {
    Event(comm->devices[rank], Some(5000),
          Connected{comm->pairs[rank], comm->epochs[rank], absl::OkStatus()});
  }
}

void PairSim::Gather(const std::shared_ptr<Device>& device, const SendParcel& command) {
  if (!device->in_use.emplace(command.buffer, command.key).second)
    return Broken("a send buffer is used twice");
  SimParcel parcel;
  parcel.header = {.epoch = command.key.epoch, .plan = command.plan, .is_void = command.is_void};
  for (const SourcePart& source : command.sources) {
    uint64_t id = 0;
    std::memcpy(&id, command.plan.ticket.secret.data(), sizeof id);
    if (states_.at(id)->released) return Broken("a source was read after its release");
    auto& bytes = parcel.bytes.emplace_back(SizeOf(source.bytes));
    CopyParts(source.bytes, {bytes});
  }
  device->buffers[command.buffer] = std::move(parcel);
  Event(device, microseconds(1), ParcelGathered{command.key});
}

void PairSim::Post(const std::shared_ptr<Device>& device, const SendParcel& command) {
  const auto found = device->comms.find({command.key.pair, command.key.epoch});
  if (found == device->comms.end()) return Broken("a send without a communicator");
  const Operation send{.device = device,
                       .key = command.key,
                       .buffer = command.buffer,
                       .parcel = device->buffers[command.buffer],
                       .stalled = Chance(options_.never_completes),
                       .fails = Chance(options_.fail_send)};
  if (command.key.number > 0) return Launch(found->second, send);
  // The first transfer connects the two devices.
  At(Some(20'000), [this, comm = found->second, send] {
    if (!comm->gone[1] && !send.device->dead) Launch(comm, send);
  });
}

void PairSim::Launch(const std::shared_ptr<Comm>& comm, const Operation& send) {
  comm->sends.push_back(send);
  send.device->stream.push_back(send.key);
  Event(send.device, microseconds(1), ParcelLaunched{send.key});
  Match(comm);
}

void PairSim::Post(const std::shared_ptr<Device>& device, const ReceiveParcel& command) {
  if (!device->in_use.emplace(command.buffer, command.key).second)
    return Broken("a receive buffer is used twice");
  const auto found = device->comms.find({command.key.pair, command.key.epoch});
  if (found == device->comms.end()) return Broken("a receive without a communicator");
  if (Chance(options_.fail_receive)) {
    return Event(device, Some(100), ReceivePosted{command.key, absl::InternalError("cannot post")});
  }
  found->second->receives.push_back(
      {.device = device, .key = command.key, .buffer = command.buffer, .parcel = {}});
  // Posts are told of in their order.
  Event(device, microseconds(1), ReceivePosted{command.key, absl::OkStatus()});
  Match(found->second);
}

void PairSim::Match(const std::shared_ptr<Comm>& comm) {
  const auto ready = [&] {
    if (comm->sends.empty() || comm->receives.empty()) return false;
    const Operation& send = comm->sends.front();
    return !send.stalled && send.device->stream.front() == send.key;
  };
  while (ready()) {
    Operation send = std::move(comm->sends.front());
    Operation receive = std::move(comm->receives.front());
    comm->sends.pop_front();
    comm->receives.pop_front();
    if (send.key.number != receive.key.number || send.key.epoch != receive.key.epoch) {
      return Broken("a send met the receive of another parcel");
    }
    const base::Duration delay = Some(3000);
    if (send.fails) {
      Event(send.device, delay, ParcelSent{send.key, absl::InternalError("send failed")});
      At(delay, [this, send] { LeaveStream(send.device, send.key); });
      continue;
    }
    At(delay, [this, comm, send, receive] {
      // An abort of either side came before the last byte.
      if (comm->gone[0] || comm->gone[1] || send.device->dead || receive.device->dead) return;
      receive.device->buffers[receive.buffer] = send.parcel;
      send.device->in_use.erase(send.buffer);
      receive.device->in_use.erase(receive.buffer);
      Event(send.device, Some(200), ParcelSent{send.key, absl::OkStatus()});
      Event(receive.device, Some(200), ParcelReceived{receive.key, absl::OkStatus()});
      LeaveStream(send.device, send.key);
    });
  }
}

void PairSim::LeaveStream(const std::shared_ptr<Device>& device, const ParcelKey& key) {
  std::erase(device->stream, key);
  MoveStream(device);
}

void PairSim::MoveStream(const std::shared_ptr<Device>& device) {
  if (device->stream.empty() || device->dead) return;
  const ParcelKey first = device->stream.front();
  if (device->leaving && device->leaving->pair == first.pair) {
    const AbortPair command = *std::exchange(device->leaving, std::nullopt);
    device->busy = false;
    AbortSide(device, command);
    return RunNext(device);
  }
  Match(device->comms.at({first.pair, first.epoch}));
}

// The call does not come back before the communicator's sends have left the stream, which they do
// as soon as none of another lies in front of them.
void PairSim::BeginAbort(const std::shared_ptr<Device>& device, const AbortPair& command) {
  const auto of_it = [&](const ParcelKey& key) { return key.pair == command.pair; };
  const auto& stream = device->stream;
  if (std::ranges::none_of(stream, of_it) || of_it(stream.front())) {
    return AbortSide(device, command);
  }
  device->busy = true;
  device->leaving = command;
}

void PairSim::AbortSide(const std::shared_ptr<Device>& device, const AbortPair& command) {
  const auto found = device->comms.find({command.pair, command.epoch});
  if (found != device->comms.end()) {
    Comm& comm = *found->second;
    comm.gone[device->is_sender ? 1 : 0] = true;
    auto& mine = device->is_sender ? comm.sends : comm.receives;
    mine.clear();
  }
  // Its buffers are the machine's again.
  std::erase_if(device->in_use, [&](const auto& use) {
    return use.second.pair == command.pair && use.second.epoch == command.epoch;
  });
  Event(device, Some(1000), DeviceAborted{command.pair, command.epoch});
  std::erase_if(device->stream, [&](const ParcelKey& key) { return key.pair == command.pair; });
  MoveStream(device);
}

void PairSim::Deliver(const std::shared_ptr<Device>& device, const DeliverParcel& command) {
  const SimParcel& parcel = device->buffers[command.buffer];
  const auto answer = [&](ParcelOutcome outcome, base::Duration delay) {
    if (outcome == ParcelOutcome::kVoid) ++voids;
    if (outcome == ParcelOutcome::kDiscarded) ++discarded;
    Event(device, delay, ParcelDelivered{command.key, outcome, "why"});
  };
  const absl::Status check = CheckParcelHeader(parcel.header, command.key.epoch, command.plan);
  if (!check.ok()) return Broken(std::string(check.message()));
  if (command.plan.parts.empty()) return answer(ParcelOutcome::kWritten, Some(100));
  if (parcel.header.is_void) return answer(ParcelOutcome::kVoid, Some(100));
  uint64_t id = 0;
  std::memcpy(&id, command.plan.ticket.secret.data(), sizeof id);
  const auto push = states_.at(id);
  if (push->detached) return answer(ParcelOutcome::kDiscarded, Some(100));
  if (push->orphaned) return answer(ParcelOutcome::kDiscarded, Some(100));
  ++push->writing;
  const bool corrupt = Chance(options_.corrupts);
  const base::Duration time = Some(1000);
  At(time, [this, push, parcel, command, device] {
    if (push->freed) Broken("a freed block was written");
    for (size_t i = 0; i < command.plan.parts.size(); ++i) {
      const ParcelPart& part = command.plan.parts[i];
      std::ranges::copy(parcel.bytes[i],
                        push->target[static_cast<size_t>(part.ordinal)].begin() + part.offset);
    }
    --push->writing;
    if (push->detached && push->writing == 0) push->freed = true;
  });
  Event(
      device, time + microseconds(1),
      ParcelDelivered{command.key, corrupt ? ParcelOutcome::kBroken : ParcelOutcome::kWritten, ""});
}

}  // namespace baton
