#include "common/transport/pair/pair_device.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/transport/pair/pair_delivery.h"
#include "common/transport/pair/pair_parcel.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr auto kBusyPoll = std::chrono::microseconds(20);
constexpr auto kConnectPoll = std::chrono::milliseconds(1);
// Longer than PairLimits::abort, after which an abort that was not told gives the device up.
constexpr auto kAbortWait = std::chrono::seconds(10);
constexpr auto kLastCall = std::chrono::seconds(2);

// A send or a receive between its command and its completion.
struct Operation {
  ParcelKey key;
  int buffer = 0;
  int64_t bytes = 0;
  bool is_send = false;
};

// One communicator.
struct Link {
  std::unique_ptr<Communicator> communicator;
  bool connecting = true;
  std::deque<Operation> waiting;     // not posted yet
  std::optional<Operation> posting;  // posted, and the communicator is in progress
  std::deque<Operation> launched;    // on the stream, each with its mark
  std::vector<int> failed;           // buffers that it may be in although a call said otherwise
  bool busy() const { return connecting || posting || !waiting.empty() || !launched.empty(); }
};

// An epoch whose communicator is gone, while the device may still be in its buffers.
struct Ending {
  PairId pair = 0;
  uint64_t epoch = 0;
  std::vector<int> buffers;
  std::chrono::steady_clock::time_point deadline;
};

}  // namespace

class PairDevice::Worker final : public std::enable_shared_from_this<Worker> {
 public:
  explicit Worker(Options options) : options_(std::move(options)) {}

  void Run(std::function<void(absl::Status)> started);
  void Post(DeviceCommand command);
  void Stop();
  // False when the thread did not end in time.
  bool WaitEnded(base::Instant deadline);

 private:
  using LinkKey = std::pair<PairId, uint64_t>;

  std::optional<DeviceCommand> NextCommand(bool busy);
  void Execute(const DeviceCommand& command);
  void On(const MakeUniqueId& command);
  void On(const Connect& command);
  void On(const SendParcel& command);
  void On(const ReceiveParcel& command);
  void On(const DeliverParcel& command);
  void On(const AbortPair& command);
  void On(const AbandonDevice&) {}
  // Whether anything is under way.
  bool Poll();
  void PollLink(const LinkKey& key, Link* link);
  void PostNext(Link* link);
  void Complete(Link* link, const Operation& operation, const absl::Status& status);
  absl::StatusOr<std::vector<int>> Release(Link link);
  // False when the device is still in its buffers.
  bool IsOver(const Ending& ending);
  absl::Status GatherInto(const SendParcel& command);
  void Tell(DeviceEvent event);

  Options options_;
  // Only the thread touches these two.
  std::map<LinkKey, Link> links_;
  std::vector<Ending> endings_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<DeviceCommand> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  base::Mutex telling_;  // held while on_event runs
  bool silent_ ABSL_GUARDED_BY(telling_) = false;
};

void PairDevice::Worker::Run(std::function<void(absl::Status)> started) {
  const absl::Status bound = options_.memory->BindThread();
  std::exchange(started, nullptr)(bound);
  if (bound.ok()) {
    bool busy = false;
    while (std::optional<DeviceCommand> command = NextCommand(busy)) {
      Execute(*command);
      busy = Poll();
    }
    links_.clear();
  }
  base::MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

// The next command. When it is time to poll again this is AbandonDevice, which does nothing; at the
// end it is empty.
std::optional<DeviceCommand> PairDevice::Worker::NextCommand(bool busy) {
  const bool moving = std::ranges::any_of(
      links_, [](const auto& entry) { return entry.second.busy() && !entry.second.connecting; });
  const auto poll_at =
      std::chrono::steady_clock::now() + (moving ? base::Duration(kBusyPoll) : kConnectPoll);
  base::MutexLock lock(&mutex_);
  while (commands_.empty() && !stopping_) {
    if (!busy) {
      changed_.Wait(&mutex_);
    } else if (!changed_.WaitUntil(&mutex_, poll_at)) {
      return AbandonDevice{};
    }
  }
  if (stopping_) return std::nullopt;
  DeviceCommand command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void PairDevice::Worker::Post(DeviceCommand command) {
  std::vector<ParcelKey> unread;
  {
    base::MutexLock lock(&mutex_);
    if (abandoned_ || stopping_) return;
    if (std::holds_alternative<AbandonDevice>(command)) {
      abandoned_ = true;
      for (const DeviceCommand& left : commands_) {
        if (const auto* send = std::get_if<SendParcel>(&left)) unread.push_back(send->key);
      }
      commands_.clear();
    } else {
      commands_.push_back(std::move(command));
      changed_.NotifyAll();
    }
  }
  if (unread.empty()) return;
  // This takes a thread of its own, because the caller holds a lock that on_event takes.
  std::thread([unread, self = shared_from_this()] {
    for (const ParcelKey& key : unread) self->Tell(ParcelGathered{key});
  }).detach();
}

void PairDevice::Worker::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  base::MutexLock lock(&telling_);
  silent_ = true;
}

bool PairDevice::Worker::WaitEnded(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (!ended_) {
    if (!changed_.WaitUntil(&mutex_, deadline)) return ended_;
  }
  return true;
}

void PairDevice::Worker::Tell(DeviceEvent event) {
  base::MutexLock lock(&telling_);
  if (!silent_) options_.on_event(std::move(event));
}

void PairDevice::Worker::Execute(const DeviceCommand& command) {
  std::visit([this](const auto& what) { On(what); }, command);
}

void PairDevice::Worker::On(const MakeUniqueId& command) {
  absl::StatusOr<std::string> id = options_.communicators->MakeUniqueId();
  std::string bytes = id.ok() ? *id : std::string();
  Tell(UniqueIdMade{command.pair, command.epoch, std::move(bytes), id.status()});
}

void PairDevice::Worker::On(const Connect& command) {
  auto communicator = options_.communicators->Connect(command.unique_id, command.rank);
  if (!communicator.ok()) {
    return Tell(Connected{command.pair, command.epoch, communicator.status()});
  }
  links_[{command.pair, command.epoch}].communicator = *std::move(communicator);
}

absl::Status PairDevice::Worker::GatherInto(const SendParcel& command) {
  PairMemory& memory = *options_.memory;
  ParcelHeader header{.epoch = command.key.epoch,
                      .plan = command.plan,
                      .is_void = command.is_void,
                      .has_sums = options_.checksum && !command.is_void,
                      .sums = {}};
  if (command.is_void) {
    BATON_RETURN_IF_ERROR(memory.Clear(command.buffer, command.plan.bytes));
  } else {
    BATON_ASSIGN_OR_RETURN(
        header.sums, memory.Gather(command.buffer, command.sources, PartOffsets(command.plan.parts),
                                   header.has_sums));
  }
  return memory.WriteHeader(command.buffer, EncodeParcelHeader(header));
}

void PairDevice::Worker::On(const SendParcel& command) {
  const absl::Status status = GatherInto(command);
  Tell(ParcelGathered{command.key});
  if (!status.ok()) return Tell(ParcelSent{command.key, status});
  const auto link = links_.find({command.key.pair, command.key.epoch});
  if (link == links_.end()) return;  // aborted since
  link->second.waiting.push_back(
      {command.key, command.buffer, command.plan.bytes, /*is_send=*/true});
}

void PairDevice::Worker::On(const ReceiveParcel& command) {
  const auto link = links_.find({command.key.pair, command.key.epoch});
  if (link == links_.end()) return;
  link->second.waiting.push_back({command.key, command.buffer, command.bytes, /*is_send=*/false});
}

void PairDevice::Worker::On(const DeliverParcel& command) {
  Tell(Deliver(command, options_.memory.get(), options_.checksum, options_.find_inbox));
}

// Each transfer has a mark of its own on the stream, so an abort does not wait for what others have
// queued behind it. What has none yet may have been launched by a call that did not say so.
absl::StatusOr<std::vector<int>> PairDevice::Worker::Release(Link link) {
  link.communicator.reset();
  std::vector<int> buffers = std::move(link.failed);
  if (link.posting) buffers.push_back(link.posting->buffer);
  for (const int buffer : buffers) BATON_RETURN_IF_ERROR(options_.memory->Mark(buffer));
  for (const Operation& operation : link.launched) buffers.push_back(operation.buffer);
  return buffers;
}

void PairDevice::Worker::On(const AbortPair& command) {
  Ending ending{.pair = command.pair,
                .epoch = command.epoch,
                .buffers = {},
                .deadline = std::chrono::steady_clock::now() + kAbortWait};
  if (auto link = links_.extract({command.pair, command.epoch})) {
    absl::StatusOr<std::vector<int>> buffers = Release(std::move(link.mapped()));
    if (!buffers.ok()) {
      spdlog::error("an aborted transfer cannot be waited for: {}",
                    std::string(buffers.status().message()));
      return;  // the deadline of the abort gives the device up
    }
    ending.buffers = *std::move(buffers);
  }
  endings_.push_back(std::move(ending));  // Poll tells when it is over
}

bool PairDevice::Worker::IsOver(const Ending& ending) {
  for (const int buffer : ending.buffers) {
    const absl::StatusOr<bool> reached = options_.memory->Reached(buffer);
    if (reached.ok() && *reached) continue;
    if (reached.ok() && std::chrono::steady_clock::now() < ending.deadline) return false;
    spdlog::error("the device did not end an aborted transfer: {}",
                  reached.ok() ? "it still runs" : std::string(reached.status().message()));
    return true;
  }
  Tell(DeviceAborted{ending.pair, ending.epoch});
  return true;
}

bool PairDevice::Worker::Poll() {
  bool busy = false;
  for (auto& [key, link] : links_) {
    if (!link.busy()) continue;
    PollLink(key, &link);
    busy = busy || link.busy();
  }
  std::erase_if(endings_, [this](const Ending& ending) { return IsOver(ending); });
  return busy || !endings_.empty();
}

void PairDevice::Worker::PollLink(const LinkKey& key, Link* link) {
  if (link->connecting || link->posting) {
    const absl::StatusOr<bool> in_progress = link->communicator->InProgress();
    if (in_progress.ok() && *in_progress) return;
    absl::Status status = in_progress.status();
    if (link->connecting) {
      link->connecting = false;
      return Tell(Connected{key.first, key.second, std::move(status)});
    }
    const Operation operation = *std::exchange(link->posting, std::nullopt);
    if (status.ok()) status = options_.memory->Mark(operation.buffer);
    if (!status.ok()) return Complete(link, operation, status);
    link->launched.push_back(operation);
    if (operation.is_send) Tell(ParcelLaunched{operation.key});
  }
  while (!link->launched.empty()) {
    const absl::StatusOr<bool> reached = options_.memory->Reached(link->launched.front().buffer);
    if (reached.ok() && !*reached) break;
    Complete(link, link->launched.front(), reached.status());
    link->launched.pop_front();
  }
  PostNext(link);
}

// A communicator in progress takes no other call.
void PairDevice::Worker::PostNext(Link* link) {
  if (link->waiting.empty() || link->posting) return;
  const Operation operation = link->waiting.front();
  link->waiting.pop_front();
  std::byte* const bytes = options_.memory->buffer(operation.buffer);
  const auto count = static_cast<size_t>(operation.bytes);
  const DeviceStream stream = options_.memory->stream();
  if (operation.is_send) {
    base::Failpoint("sending_parcel");
    const absl::Status status = link->communicator->Send(bytes, count, stream);
    if (!status.ok()) return Complete(link, operation, status);
  } else {
    const absl::Status status = link->communicator->Receive(bytes, count, stream);
    Tell(ReceivePosted{operation.key, status});
    if (!status.ok()) return link->failed.push_back(operation.buffer);
  }
  link->posting = operation;
}

void PairDevice::Worker::Complete(Link* link, const Operation& operation,
                                  const absl::Status& status) {
  if (!status.ok()) link->failed.push_back(operation.buffer);
  if (operation.is_send) {
    Tell(ParcelSent{operation.key, status});
  } else {
    base::Failpoint("received_parcel");
    Tell(ParcelReceived{operation.key, status});
  }
}

absl::StatusOr<std::unique_ptr<PairDevice>> PairDevice::Start(Options options) {
  auto worker = std::make_shared<Worker>(std::move(options));
  struct Result {
    base::Mutex mutex;
    base::CondVar changed;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  const auto result = std::make_shared<Result>();
  std::thread([worker, result] {
    worker->Run([result](absl::Status status) {
      base::MutexLock lock(&result->mutex);
      result->status = std::move(status);
      result->changed.NotifyAll();
    });
  }).detach();
  base::MutexLock lock(&result->mutex);
  while (!result->status) result->changed.Wait(&result->mutex);
  if (!result->status->ok()) return *result->status;
  return std::unique_ptr<PairDevice>(new PairDevice(std::move(worker)));
}

PairDevice::~PairDevice() {
  worker_->Stop();
  if (!worker_->WaitEnded(std::chrono::steady_clock::now() + kLastCall)) {
    spdlog::error("a call into the device does not come back; its thread is left behind");
  }
}

void PairDevice::Post(DeviceCommand command) { worker_->Post(std::move(command)); }

}  // namespace baton
