#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/oracle.h"
#include "tests/sim/sim_worker.h"

namespace baton::sim {

// How often each path was taken, over all schedules: a simulation that never preempts proves
// nothing about preemption.
struct Coverage {
  uint64_t finished = 0, cancelled = 0, deadlines = 0, refused = 0, attempts = 0, resumed = 0;
  uint64_t imported = 0, ended_at_first_token = 0, late_returns = 0, late_commits = 0;
  uint64_t preemptions = 0, displaced = 0, revocations = 0, chunks = 0, prefix_hits = 0, steps = 0;
  uint64_t swaps = 0, swaps_without_room = 0, swaps_lost = 0, blocks_swapped_in = 0;
  uint64_t ids_accepted = 0, ids_rejected = 0;
  uint64_t scores = 0;
  uint64_t ids_forced = 0, ids_jumped = 0, ended_by_grammar = 0;
  // These happen only with two steps in flight.
  uint64_t rows_ahead = 0, rows_discarded = 0, held_back = 0, ended_behind_two = 0;
};

// A whole cluster without threads: prefill and decode workers, requests with their attempts, block
// transfers that take their time, aborts, deadlines and late lease returns. All of it follows from
// the seed. Every accepted token is compared with the one that the undisturbed request gets.
class ClusterSim {
 public:
  // `policy` and `forecast` are those of all workers; other than by them, the schedule follows from
  // the seed.
  explicit ClusterSim(uint64_t seed, const Policy& policy = kFcfsPolicy,
                      Forecast forecast = Forecast::kNoise);
  ~ClusterSim();
  // Runs to the end of all requests. Returns the first thing that was wrong, or nothing.
  std::string Run(Coverage* coverage);

 private:
  enum class Side { kDecode, kPrefill };
  struct Request {
    SequenceSpec spec;
    std::optional<uint64_t> grammar;  // the seed of the one that the answer follows
    Expected expected;
    int32_t starts_at_tick = 0;
    std::vector<TokenId> accepted;
    std::optional<int32_t> natural_end;
    int32_t scored = 1;  // the next token of the prompt to be scored, if any is to be
    bool done = false;

    // One of eight has its prompt scored; a new attempt goes on where the last one ended.
    std::optional<int32_t> score_from() const {
      const bool wants = spec.sampling.seed % 8 == 0;
      return wants && scored < std::ssize(spec.prompt) ? std::optional(scored) : std::nullopt;
    }
    int32_t attempt = 0;
    // The streams of the current attempt; empty while they are not open.
    std::optional<size_t> decode, prefill;  // into tracks_
    std::optional<SampledToken> first;      // drawn by the prefill worker
  };
  struct Ready {
    std::span<std::byte> bytes;
    std::vector<std::byte> copy;  // what stood there when it became ready
  };
  // A sequence of some worker, as its stream's owner knows it.
  struct Track {
    size_t request = 0;
    int32_t attempt = 0;
    Side side = Side::kDecode;
    SimWorker* worker = nullptr;
    SequenceId id;
    SequenceState state = SequenceState::kQueued;
    bool over = false;
    bool lease_out = false;
    bool last_ready = false;
    std::optional<FinishReason> reason;
    std::map<int32_t, std::span<std::byte>> lease;  // kDecode: ordinals still to be written
    bool granted = false;
    bool committed = false;
    SampledToken first;              // of the commit
    std::map<int32_t, Ready> ready;  // kPrefill
    int32_t return_at_tick = -1;     // the lease goes back then
    int32_t commit_at_tick = -1;     // the commit reaches the engine then
  };

  void MakeRequests();
  bool MakeRequest(Request* request);
  void Tick();
  void StepWorker(SimWorker* worker);
  void HandleEvents(SimWorker* worker);
  void Handle(Track* track, const BlocksGranted& granted);
  void Handle(Track* track, const RefusedEvent& refused);
  void Handle(Track* track, const StateEvent& state);
  void Handle(Track* track, const BlocksProven& proven);
  void Handle(Track* track, const ScoresEvent& scores);
  void Handle(Track* track, const TokenEvent& token);
  void Handle(Track* track, const FinishedEvent& finished);
  void Handle(Track* track, const RevokedEvent& revoked);
  void Handle(Track* track, const DetachEvent& detach);

  void DriveRequest(size_t index);
  void OpenAttempt(size_t index);
  void OpenPrefill(Request* request);
  void MoveBlocks(Request* request);
  void TryCommit(Request* request);
  void EndAttempt(Request* request);
  void Complete(Request* request, FinishReason reason);
  void DisturbSomething();
  void SendDelayed();
  void ReturnLease(Track* track);
  void Accept(Request* request, const SampledToken& token, int32_t index);
  bool IsCurrent(const Track& track) const;
  Track* DecodeTrack(const Request& request);
  Track* PrefillTrack(const Request& request);
  size_t AddTrack(size_t index, Side side, SimWorker* worker, SequenceSpec spec);
  void Broken(std::string what);
  std::string CheckEmpty() const;
  void Collect(Coverage* coverage) const;

  Dice dice_;
  FakeModelOptions model_;
  base::Instant now_{std::chrono::hours(1)};
  int32_t tick_ = 0;
  std::vector<std::unique_ptr<SimWorker>> decoders_, prefillers_;
  std::vector<Request> requests_;
  std::deque<Track> tracks_;
  std::map<std::pair<const SimWorker*, SequenceId>, size_t> track_of_;
  Coverage coverage_;
  std::string broken_;
};

}  // namespace baton::sim
