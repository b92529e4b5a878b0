#include "tests/sim/cluster_sim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/sim/random_grammar.h"

namespace baton::sim {
namespace {

constexpr int32_t kMaxTicks = 20000;
constexpr std::chrono::milliseconds kTickMax{10};

std::vector<TokenId> RandomPrompt(Dice* dice) {
  // Few families of prompts, so that prefixes repeat.
  const int32_t family = dice->Int(0, 3);
  std::vector<TokenId> prompt;
  const int32_t length = dice->Int(1, 40);
  for (int32_t i = 0; i < length; ++i) prompt.push_back(4 + (family * 97 + i * 13) % 400);
  if (dice->Chance(50)) prompt.back() = dice->Int(4, 499);
  return prompt;
}

void RandomStop(Dice* dice, SequenceSpec* spec) {
  StopParams& stop = spec->stop;
  stop.max_tokens = dice->Chance(15) ? 0 : dice->Int(1, 30);
  if (stop.max_tokens > 0 && dice->Chance(20)) stop.min_tokens = dice->Int(0, stop.max_tokens);
  const int32_t kind = dice->Int(1, 100);
  if (kind <= 15) {
    stop.eos_policy = EosPolicy::kIgnoreContinue;
  } else if (kind <= 30) {
    stop.eos_policy = EosPolicy::kIgnoreMask;
  } else if (kind <= 50) {
    for (int32_t i = 0; i < 20; ++i) stop.stop_token_ids.push_back(dice->Int(4, 499));
  } else if (kind <= 65) {
    stop.length_control = {.target = dice->Int(1, 30), .strength = 3};
  }
}

}  // namespace

ClusterSim::ClusterSim(uint64_t seed, const Policy& policy, Forecast forecast) : dice_(seed) {
  model_.vocab_size = 500;
  model_.eos_permille = dice_.Chance(70) ? dice_.Int(0, 150) : 0;
  const int32_t decoders = dice_.Int(1, 2), prefillers = dice_.Int(1, 2);
  WorkerOptions first = RandomWorker(&dice_);
  first.scheduler.policy = policy;
  first.forecast = forecast;
  const int32_t block_size = first.scheduler.block_size;
  for (int32_t i = 0; i < decoders; ++i) {
    // What an unset max_tokens means follows from the pool, so it must be the same everywhere.
    decoders_.push_back(std::make_unique<SimWorker>(first, model_));
  }
  for (int32_t i = 0; i < prefillers; ++i) {
    WorkerOptions options = RandomWorker(&dice_);
    options.scheduler.policy = policy;
    options.forecast = forecast;
    options.scheduler.block_size = block_size;
    options.scheduler.limits = first.scheduler.limits;
    options.scheduler.limits.pool_tokens = options.num_blocks * block_size;
    prefillers_.push_back(std::make_unique<SimWorker>(options, model_));
  }
  MakeRequests();
}

ClusterSim::~ClusterSim() = default;

void ClusterSim::MakeRequests() {
  const int32_t count = dice_.Int(2, 14);
  for (int32_t i = 0; i < count; ++i) {
    Request request;
    for (int32_t trial = 0; trial < 50; ++trial) {
      if (!MakeRequest(&request)) continue;
      requests_.push_back(std::move(request));
      break;
    }
  }
}

// False when no worker could take it; the refusals have their own tests.
bool ClusterSim::MakeRequest(Request* request) {
  *request = Request();
  SequenceSpec& spec = request->spec;
  spec.prompt = RandomPrompt(&dice_);
  spec.sampling.temperature = dice_.Chance(50) ? 0.0f : 1.0f;
  spec.sampling.seed = static_cast<uint64_t>(dice_.Int(0, 1 << 30));
  if (dice_.Chance(20)) spec.sampling.repetition_penalty = 1.5f;
  if (dice_.Chance(20)) spec.cache_salt = "tenant";
  spec.reserve_timeout = std::chrono::milliseconds(dice_.Int(20, 500));
  RandomStop(&dice_, &spec);
  if (spec.stop.eos_policy == EosPolicy::kHonor && dice_.Chance(40)) {
    request->grammar = static_cast<uint64_t>(dice_.Int(1, 1 << 30));
    spec.guide = {.kind = GuideKind::kRegex, .text = "made up"};
    spec.bare_forced = dice_.Chance(50);
  }
  request->starts_at_tick = dice_.Int(0, 60);
  for (const auto& worker : decoders_) {
    if (!CheckSpec(spec, worker->limits()).ok()) return false;
  }
  for (const auto& worker : prefillers_) {
    SequenceSpec whole = spec;
    whole.kind = SequenceKind::kPrefill;
    if (!CheckSpec(whole, worker->limits()).ok()) return false;
    const auto longest =
        static_cast<int64_t>(spec.prompt.size()) + ResolveMaxTokens(spec, decoders_[0]->limits());
    if (longest > worker->limits().pool_tokens) return false;  // must hold every resume
  }
  request->expected = Predict(model_, decoders_[0]->kv().layout(), spec, {2, 3},
                              ResolveMaxTokens(spec, decoders_[0]->limits()), request->grammar);
  return true;
}

std::string ClusterSim::Run(Coverage* coverage) {
  const auto idle = [](const auto& worker) { return !worker->busy(); };
  const auto all_done = [&] {
    return std::ranges::all_of(requests_, [](const Request& r) { return r.done; }) &&
           std::ranges::none_of(tracks_, [](const Track& t) { return !t.over || t.lease_out; }) &&
           std::ranges::all_of(decoders_, idle) && std::ranges::all_of(prefillers_, idle);
  };
  while (broken_.empty() && !all_done()) {
    if (++tick_ > kMaxTicks) {
      Broken("no end: some request stands still");
      break;
    }
    Tick();
  }
  if (broken_.empty()) Broken(CheckEmpty());
  Collect(coverage);
  return broken_.empty() ? "" : absl::StrCat("tick ", tick_, ": ", broken_);
}

void ClusterSim::Tick() {
  now_ += std::chrono::microseconds(
      dice_.Int(0, static_cast<int32_t>(std::chrono::microseconds(kTickMax).count())));
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (dice_.Chance(70)) DriveRequest(i);
  }
  if (dice_.Chance(8)) DisturbSomething();
  SendDelayed();
  for (const auto& worker : decoders_) StepWorker(worker.get());
  for (const auto& worker : prefillers_) StepWorker(worker.get());
}

void ClusterSim::StepWorker(SimWorker* worker) {
  if (dice_.Chance(10)) return;  // a slow one
  Broken(worker->BeginStep(now_));
  HandleEvents(worker);
  if (dice_.Chance(5)) DisturbSomething();  // while the step is on the device
  if (dice_.Chance(20)) SendDelayed();
  Broken(worker->FinishStep(now_));
  HandleEvents(worker);
}

void ClusterSim::DriveRequest(size_t index) {
  Request& request = requests_[index];
  if (request.done || tick_ < request.starts_at_tick) return;
  if (!request.decode) return OpenAttempt(index);
  const Track* const decode = DecodeTrack(request);
  if (!decode->granted || decode->committed) return;
  if (!request.prefill) return OpenPrefill(&request);
  MoveBlocks(&request);
  TryCommit(&request);
}

void ClusterSim::OpenAttempt(size_t index) {
  Request& request = requests_[index];
  SequenceSpec spec = request.spec;
  spec.kind = dice_.Chance(35) ? SequenceKind::kLocal : SequenceKind::kReserved;
  spec.generated = request.accepted;
  spec.natural_end_step = request.natural_end;
  spec.score_from = request.score_from();
  // An open request that filled its context with the prefill worker's token, and then lost its
  // reservation, has come to its end: the router learns so from the refusal.
  if (!CheckSpec(spec, decoders_[0]->limits()).ok())
    return Complete(&request, FinishReason::kLength);
  if (dice_.Chance(10)) spec.deadline = now_ + std::chrono::milliseconds(dice_.Int(1, 800));
  ++request.attempt;
  ++coverage_.attempts;
  if (!request.accepted.empty()) ++coverage_.resumed;
  request.first.reset();
  const auto last = static_cast<int32_t>(decoders_.size()) - 1;
  SimWorker* const worker = decoders_[static_cast<size_t>(dice_.Int(0, last))].get();
  request.decode = AddTrack(index, Side::kDecode, worker, std::move(spec));
}

void ClusterSim::OpenPrefill(Request* request) {
  SequenceSpec spec = request->spec;
  spec.kind = SequenceKind::kPrefill;
  spec.generated = request->accepted;
  spec.natural_end_step = request->natural_end;
  spec.score_from = request->score_from();
  const auto last = static_cast<int32_t>(prefillers_.size()) - 1;
  SimWorker* const worker = prefillers_[static_cast<size_t>(dice_.Int(0, last))].get();
  const auto index = static_cast<size_t>(request - requests_.data());
  request->prefill = AddTrack(index, Side::kPrefill, worker, std::move(spec));
}

size_t ClusterSim::AddTrack(size_t index, Side side, SimWorker* worker, SequenceSpec spec) {
  Track track;
  track.request = index;
  track.attempt = requests_[index].attempt;
  track.side = side;
  track.worker = worker;
  if (const auto grammar = requests_[index].grammar) {
    spec.follows = std::make_shared<RandomGuide>(*grammar, spec.generated,
                                                 static_cast<size_t>(dice_.Int(1, 12)));
  }
  track.id = worker->Add(std::move(spec), now_);
  tracks_.push_back(std::move(track));
  track_of_[{worker, tracks_.back().id}] = tracks_.size() - 1;
  return tracks_.size() - 1;
}

// Copies some of the blocks that are ready and still missing.
void ClusterSim::MoveBlocks(Request* request) {
  Track* const to = DecodeTrack(*request);
  const Track* const from = PrefillTrack(*request);
  if (to->over) return;
  std::erase_if(to->lease, [&](const auto& target) {
    const auto source = from->ready.find(target.first);
    if (source == from->ready.end() || dice_.Chance(30)) return false;
    std::ranges::copy(source->second.bytes, target.second.begin());
    return true;
  });
}

void ClusterSim::TryCommit(Request* request) {
  Track* const decode = DecodeTrack(*request);
  Track* const prefill = PrefillTrack(*request);
  if (decode->over || !prefill->last_ready || !decode->lease.empty() || !request->first) return;
  decode->committed = true;
  decode->first = *request->first;
  decode->commit_at_tick = tick_ + (dice_.Chance(70) ? 0 : dice_.Int(1, 6));
  prefill->return_at_tick = tick_ + dice_.Int(0, 5);
}

// Ends all streams of the attempt, as the router does.
void ClusterSim::EndAttempt(Request* request) {
  for (const auto side : {request->decode, request->prefill}) {
    if (!side) continue;
    Track& track = tracks_[*side];
    if (!track.over) {
      track.worker->scheduler().Cancel(track.id, now_);
      if (dice_.Chance(20)) track.worker->scheduler().Cancel(track.id, now_);
    } else if (track.lease_out && track.return_at_tick < 0) {
      track.return_at_tick = tick_ + dice_.Int(0, 30);
    }
  }
  request->decode.reset();
  request->prefill.reset();
}

void ClusterSim::Complete(Request* request, FinishReason reason) {
  if (reason != request->expected.reason) {
    Broken(absl::StrCat("finished as ", std::string(FinishReasonName(reason)), ", expected ",
                        std::string(FinishReasonName(request->expected.reason))));
  }
  if (request->accepted.size() != request->expected.tokens.size()) {
    Broken(absl::StrCat("finished after ", request->accepted.size(), " tokens, expected ",
                        request->expected.tokens.size()));
  }
  if (request->natural_end != request->expected.natural_end) Broken("wrong natural end");
  request->done = true;
  ++coverage_.finished;
  coverage_.ended_by_grammar += reason == FinishReason::kStopGrammar ? 1 : 0;
  EndAttempt(request);
}

// A client cancels, or an attempt dies and the next one resumes.
void ClusterSim::DisturbSomething() {
  if (requests_.empty()) return;
  Request& request =
      requests_[static_cast<size_t>(dice_.Int(0, static_cast<int32_t>(requests_.size()) - 1))];
  if (request.done || !request.decode) return;
  if (request.accepted.size() == request.expected.tokens.size()) return;  // its end is on the way
  if (dice_.Chance(30)) {
    request.done = true;
    ++coverage_.cancelled;
  }
  EndAttempt(&request);
}

// Commands that took their time on the way.
void ClusterSim::SendDelayed() {
  for (Track& track : tracks_) {
    if (track.commit_at_tick >= 0 && track.commit_at_tick <= tick_) {
      track.commit_at_tick = -1;
      ++(track.over ? coverage_.late_commits : coverage_.imported);
      track.lease_out = false;
      track.worker->scheduler().CommitImport(track.id, track.first, now_);
    }
    if (track.lease_out && track.return_at_tick >= 0 && track.return_at_tick <= tick_) {
      ReturnLease(&track);
    }
  }
}

}  // namespace baton::sim
