#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/transport/pair/pair_receiver.h"
#include "common/transport/pair/pair_sender.h"

namespace baton {

// Prefill and decode devices of a whole cluster in simulated time: the two state machines of the
// transport by pairs over a network, communicators and device threads that delay, fail, hang and
// die, drawn from one seed. What a device sends goes over one stream, as with a GPU, and an abort
// returns when its pair has left that. Every broken promise is written down in `violations`.
class PairSim final {
 public:
  struct Options {
    uint64_t seed = 1;
    int senders = 2, receivers = 2;
    PairLimits limits;
    // Chances, per operation unless said otherwise.
    double fail_connect = 0, fail_send = 0, fail_receive = 0, fail_id = 0;
    double never_completes = 0;  // a send and its receive
    double thread_hangs = 0;     // per command: that device thread does nothing ever again
    double corrupts = 0;         // per delivered parcel
    double cancels = 0;          // per push, before its end
    double detaches = 0;         // per push: its reservation is over at some time
    double breaks_control = 0;   // per tick and stream
    double restarts = 0;         // per tick and worker
  };

  explicit PairSim(const Options& options);
  ~PairSim();

  // Pushes keep coming and things go wrong for `faulty`; then nothing does for a minute.
  void Run(base::Duration faulty);

  std::vector<std::string> violations;
  // What happened.
  int pushes = 0, through_pair = 0, whole_through_pair = 0, cancelled = 0, returned = 0;
  int built = 0, rebuilt = 0, aborted = 0, fallen = 0, lost = 0, closed = 0, restarted = 0;
  int discarded = 0, voids = 0;
  size_t most_pairs = 0;

 private:
  struct Operation;
  struct Comm;
  struct Device;
  struct Stream;
  struct Sender;
  struct Receiver;
  struct PushState;
  struct Inbox;
  using NodeRef = std::pair<bool, int>;  // is a sender, index

  void At(base::Duration delay, std::function<void()> what);
  void Advance(base::Instant until);
  bool Chance(double p) { return faulty_ && std::bernoulli_distribution(p)(random_); }
  base::Duration Some(int max_us);
  void Broken(std::string what);

  // Nodes.
  void StartSender(int index);
  void StartReceiver(int index);
  void Apply(int sender, std::vector<SenderAction> actions);
  void Apply(int receiver, std::vector<ReceiverAction> actions);
  void TickAll();
  void RestartSender(int index);
  void RestartReceiver(int index);

  // Control streams.
  void OpenStream(int sender, PairId pair, const std::string& address);
  void ToReceiverSide(const std::shared_ptr<Stream>& stream, ToReceiver message);
  void ToSenderSide(const std::shared_ptr<Stream>& stream, ToSender message);
  void CloseStream(std::shared_ptr<Stream> stream, bool refused);

  // Devices.
  void Command(const std::shared_ptr<Device>& device, DeviceCommand command);
  void RunNext(const std::shared_ptr<Device>& device);
  void Execute(const std::shared_ptr<Device>& device, const DeviceCommand& command);
  void Event(const std::shared_ptr<Device>& device, base::Duration delay, DeviceEvent event);
  void ConnectSide(const std::shared_ptr<Device>& device, const Connect& command);
  void Gather(const std::shared_ptr<Device>& device, const SendParcel& command);
  void Post(const std::shared_ptr<Device>& device, const SendParcel& command);
  void Post(const std::shared_ptr<Device>& device, const ReceiveParcel& command);
  void Launch(const std::shared_ptr<Comm>& comm, const Operation& send);
  void Match(const std::shared_ptr<Comm>& comm);
  void Deliver(const std::shared_ptr<Device>& device, const DeliverParcel& command);
  void LeaveStream(const std::shared_ptr<Device>& device, const ParcelKey& key);
  void MoveStream(const std::shared_ptr<Device>& device);
  void BeginAbort(const std::shared_ptr<Device>& device, const AbortPair& command);
  void AbortSide(const std::shared_ptr<Device>& device, const AbortPair& command);

  // Pushes.
  void NewPush();
  void Feed(uint64_t id);
  void Settle(uint64_t id, const std::vector<ParcelPart>& parts, bool done);
  void EndIfSettled(uint64_t id);
  void Detach(uint64_t id);
  void CheckEnd();

  const Options options_;
  std::mt19937_64 random_;
  bool faulty_ = true;
  base::Instant now_{std::chrono::hours(1)};
  uint64_t next_order_ = 0;
  struct Later {
    base::Instant when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Later& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  std::priority_queue<Later> queue_;
  std::vector<std::shared_ptr<Sender>> senders_;
  std::vector<std::shared_ptr<Receiver>> receivers_;
  std::map<std::string, std::shared_ptr<Comm>> comms_;  // by unique id
  std::map<uint64_t, std::shared_ptr<PushState>> states_;
  uint64_t next_id_ = 1;
};

}  // namespace baton
