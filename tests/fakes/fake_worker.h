#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/protocol_version.h"

namespace baton::testing {

// The moments of a stream at which a script may interfere.
enum class FakePoint {
  kDecodeOpen,    // the start was read
  kReserved,      // before Reserved is written
  kScores,        // before each message of scores is written
  kStarted,       // before Started is written
  kToken,         // before the token with `index` is written
  kFinal,         // before Final is written
  kPrefillOpen,   // the request was read
  kFirstToken,    // before the first token is written
  kCommit,        // before the commit, after the first token
  kPrefillFinal,  // before the prefill worker's last word
};

// What a script lets happen at such a moment.
struct FakeAction {
  enum class Kind {
    kGo,
    kDie,   // the worker's process dies: every stream and the Watch break
    kHang,  // nothing more happens on this stream
    kFail,  // the stream ends with `status`
    kSkip,  // this message is left out
  };
  Kind kind = Kind::kGo;
  absl::Status status;

  static FakeAction Go() { return {}; }
  static FakeAction Die() { return {.kind = Kind::kDie, .status = {}}; }
  static FakeAction Hang() { return {.kind = Kind::kHang, .status = {}}; }
  static FakeAction Skip() { return {.kind = Kind::kSkip, .status = {}}; }
  static FakeAction Fail(absl::Status status) {
    return {.kind = Kind::kFail, .status = std::move(status)};
  }
};

// What a script is told of such a moment.
struct FakeMoment {
  FakePoint point = FakePoint::kToken;
  const worker::v1::Generation& generation;
  int32_t index = 0;  // of the token that would be written next
};

// How a release or a cancel reached a decode stream.
struct FakeEnding {
  std::string request_id;
  int32_t attempt = 0;
  worker::v1::FinishCause release = worker::v1::FINISH_CAUSE_UNSPECIFIED;  // UNSPECIFIED: cancel
};

// What a group of fake workers shares: the tickets of open reservations, and what was seen.
class FakeCluster final {
 public:
  // A prefill worker commits with `first`, its first token; false for an unknown ticket. Open and
  // Close are called by the decode worker whose reservation the ticket names.
  bool Commit(const worker::v1::Ticket& ticket, const worker::v1::Token& first);
  void Open(const std::string& secret, std::function<void(const worker::v1::Token&)> committed);
  void Close(const std::string& secret);

  void Ended(FakeEnding ending);
  std::vector<FakeEnding> endings() const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, std::function<void(const worker::v1::Token&)>> open_
      ABSL_GUARDED_BY(mutex_);
  std::vector<FakeEnding> endings_ ABSL_GUARDED_BY(mutex_);
};

// A model: the next token is a pure function of the history, which is the prompt and what was
// generated after it.
using FakeModel = std::function<int32_t(const std::vector<int32_t>& history)>;
// A model that writes letters 'a' to 'z' of a byte vocabulary, by a hash of the history.
int32_t FakeLetter(const std::vector<int32_t>& history);

struct FakeWorkerOptions {
  worker::v1::WorkerRole role = worker::v1::WORKER_ROLE_DECODE;
  FakeModel model = FakeLetter;
  bool draws_by_seed = false;  // the seed stands before the history, and decides on logprobs, too
  std::vector<int32_t> eos_ids;
  std::vector<int32_t> end_chances;      // indices whose tokens had a chance to end
  std::optional<int32_t> runaway_index;  // the token with which the worker ends the answer
  std::optional<int32_t> cut_index;  // the token behind which it says that the length is reached
  std::function<FakeAction(const FakeMoment&)> script;  // null: nothing happens
  base::Duration token_delay{};
  std::string fingerprint = "model";
  std::string text_fingerprint;
  std::string numerics = "fake";
  int32_t protocol_major = kProtocolMajor, protocol_minor = kProtocolMinor;
  worker::v1::KvLayout layout;
  int32_t max_model_len = 4096;
  int32_t probe_dims = 0;  // products with each token, if asked for: its index plus 0.25, 1.25, …
  bool foresees = false;   // tokens have estimates of the end, if asked for
  bool knows_beams = true;            // false: it draws, as a worker of an earlier version
  std::optional<int32_t> beam_steps;  // that Final tells of; empty: max_tokens
  int32_t blocks_total = 4096;
  int32_t prefill_places_free = 64;
  int32_t cached_tokens = 0;  // that Started tells of
  bool ready = true;
  uint64_t incarnation = 0;  // 0: another one with each start
};

// A worker of either role in this process, on a loopback port: speaks the real protocol, computes
// nothing, and does what its script says. Pushes go through the cluster, not over the network.
class FakeWorker final {
 public:
  FakeWorker(FakeCluster* cluster, FakeWorkerOptions options);
  ~FakeWorker();

  const std::string& address() const { return address_; }
  // The process dies: every stream breaks at once.
  void Kill();
  // A new process at the same address; with an incarnation in the options, the same one with new
  // connections.
  void Restart();
  // From now on its status stream stays open and says nothing; other streams go on.
  void Mute();
  // Changes the load that the worker's status stream tells.
  void SetLoad(std::function<void(worker::v1::WorkerLoad*)> change);

  int decode_streams() const;   // opened so far
  int prefill_streams() const;  // likewise
  int open_streams() const;     // now
  std::vector<worker::v1::Generation> seen() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace baton::testing
