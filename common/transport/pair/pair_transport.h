#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/rpc/channel_opener.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_device.h"
#include "common/transport/pair/pair_sender.h"
#include "common/transport/transport_probe.h"

namespace baton {

class PairPush;
class PairCall;

// What each side of a transport from device to device is made of.
struct PairParts {
  std::unique_ptr<PairMemory> memory;  // with `limits.buffers` buffers of `limits.parcel_bytes`
  std::unique_ptr<Communicators> communicators;  // may refer to `memory`
  bool checksum = true;
  PairLimits limits;
};

// A transport that can prepare a faster way to a decode worker. Thread-safe; no call blocks.
class PairWarmer {
 public:
  virtual ~PairWarmer() = default;
  // Pushes to the process `incarnation` at `address` are about to come.
  virtual void Warm(const std::string& address, uint64_t incarnation) = 0;
  // Incarnations of the decode workers that the faster way leads to now.
  virtual std::vector<uint64_t> warm() const = 0;
};

// Moves blocks from device to device where a warm pair leads to the receiver. Everything else of
// such a push, and all other pushes, go by `messages`. A pair that fails in the middle of a push
// gives its blocks back, and they go by messages too.
class PairTransport final : public KvTransport, public PairWarmer {
 public:
  // `hello` is what decode workers are told. `clock` and `probe` outlive the transport.
  static absl::StatusOr<std::unique_ptr<PairTransport>> Start(PairParts parts, PairHello hello,
                                                              std::unique_ptr<KvTransport> messages,
                                                              ChannelOptions channel,
                                                              const base::Clock* clock,
                                                              TransportProbe* probe);
  // Its pushes must have ended or been cancelled.
  ~PairTransport() override;

  std::shared_ptr<KvPush> Open(const std::string& address, const PushHello& hello,
                               std::shared_ptr<KvPushObserver> observer) override;
  void Warm(const std::string& address, uint64_t incarnation) override;
  std::vector<uint64_t> warm() const override;

 private:
  friend class PairPush;
  PairTransport(const PairLimits& limits, const PairHello& hello,
                std::unique_ptr<KvTransport> messages, ChannelOptions channel,
                const base::Clock* clock, TransportProbe* probe, PushWay way);

  // Called by PairPush.
  void Add(PushId push, std::vector<SourcePart> parts);
  void End(PushId push);
  void Forget(PushId push);

  void Schedule();
  // Runs `step` on the state machine and does what it asks for.
  void Drive(const std::function<void(PairSender*, base::Instant, PairSender::Actions*)>& step);
  void Apply(SenderAction action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const PairNews& news);
  void OpenStream(const OpenControl& open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells pushes what became of them, in order and without the lock.
  void TellPushes();
  void TellPush(const SenderAction& action);
  bool WaitQuiet(base::Instant deadline);

  const std::unique_ptr<KvTransport> messages_;
  const base::Clock* const clock_;
  TransportProbe* const probe_;
  const PushWay way_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  PairSender machine_ ABSL_GUARDED_BY(mutex_);
  PushId next_push_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<PushId, std::shared_ptr<PairPush>> pushes_ ABSL_GUARDED_BY(mutex_);
  std::map<PairId, std::shared_ptr<PairCall>> calls_ ABSL_GUARDED_BY(mutex_);
  int open_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<SenderAction> for_pushes_ ABSL_GUARDED_BY(mutex_);
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // All three run Drive from threads of their own until they are gone, so they go before the rest,
  // and by no reset, which would set a pointer to null before its object's thread has ended.
  std::unique_ptr<PairDevice> device_;
  std::unique_ptr<ChannelOpener> opener_;  // each pair has a connection of its own
  base::TimerQueue timers_;
};

}  // namespace baton
