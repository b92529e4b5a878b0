#include "tests/fakes/fake_worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/ticket.h"
#include "common/rpc/status_map.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_worker_decode.h"
#include "tests/fakes/fake_worker_state.h"
#include "tests/fakes/fake_worker_status.h"

namespace baton::testing {
namespace {

uint64_t HashOf(const std::vector<int32_t>& history) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t id : history) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001b3;
  return hash ^ (hash >> 29);
}

class FakeDecodeService final : public worker::v1::DecodeService::CallbackService {
 public:
  explicit FakeDecodeService(std::shared_ptr<FakeWorkerState> state) : state_(std::move(state)) {}
  grpc::ServerBidiReactor<worker::v1::DecodeRequest, worker::v1::DecodeResponse>* Decode(
      grpc::CallbackServerContext* /*context*/) override {
    return new FakeDecodeStream(state_);
  }

 private:
  const std::shared_ptr<FakeWorkerState> state_;
};

class FakePrefillService final : public worker::v1::PrefillService::Service {
 public:
  explicit FakePrefillService(std::shared_ptr<FakeWorkerState> state) : state_(std::move(state)) {}

  grpc::Status Prefill(grpc::ServerContext* context, const worker::v1::PrefillRequest* request,
                       grpc::ServerWriter<worker::v1::PrefillResponse>* writer) override {
    ++state_->prefill_streams;
    ++state_->open_streams;
    state_->Saw(request->generation());
    const grpc::Status status = Play(context, *request, writer);
    --state_->open_streams;
    return status;
  }

 private:
  grpc::Status Play(grpc::ServerContext* context, const worker::v1::PrefillRequest& request,
                    grpc::ServerWriter<worker::v1::PrefillResponse>* writer) {
    const worker::v1::Generation& generation = request.generation();
    grpc::Status status;
    if (!Pass(context, FakePoint::kPrefillOpen, generation, &status)) return status;
    const worker::v1::Token token = FakeToken(*state_, generation, FakeHistory(generation));
    const auto ending = FakeEndingOf(*state_, generation, token);
    for (const worker::v1::PromptScores& scores : FakeScores(generation)) {
      if (!Pass(context, FakePoint::kScores, generation, &status)) return status;
      worker::v1::PrefillResponse message;
      *message.mutable_scores() = scores;
      if (!skip_) writer->Write(message);
    }
    if (!Pass(context, FakePoint::kFirstToken, generation, &status)) return status;
    worker::v1::PrefillResponse first;
    *first.mutable_first_token()->mutable_token() = token;
    first.mutable_first_token()->set_cached_tokens(3);
    if (ending) *first.mutable_first_token()->mutable_ending() = *ending;
    if (!skip_) writer->Write(first);
    if (!ending) {
      if (!Pass(context, FakePoint::kCommit, generation, &status)) return status;
      if (!skip_ && !state_->cluster->Commit(request.ticket(), token)) {
        return ToGrpcStatus(MakeError(absl::StatusCode::kUnavailable,
                                      {.reason = Reason::kPushFailed}, "unknown ticket"));
      }
    }
    if (!Pass(context, FakePoint::kPrefillFinal, generation, &status)) return status;
    worker::v1::PrefillResponse last;
    last.mutable_final()->mutable_timings()->set_prefill_ms(2.5);
    last.mutable_final()->set_transfer_ms(0.5);
    if (!skip_) writer->Write(last);
    return grpc::Status::OK;
  }

  bool Pass(grpc::ServerContext* context, FakePoint point, const worker::v1::Generation& generation,
            grpc::Status* status) {
    const FakeAction action = state_->Ask(point, generation, generation.generated_ids_size());
    skip_ = action.kind == FakeAction::Kind::kSkip;
    if (action.kind == FakeAction::Kind::kGo || skip_) return true;
    *status = grpc::Status(grpc::StatusCode::CANCELLED, "gone");
    if (action.kind == FakeAction::Kind::kFail) {
      *status = ToGrpcStatus(action.status);
      return false;
    }
    if (action.kind == FakeAction::Kind::kDie) state_->die();
    base::MutexLock lock(&state_->mutex);
    while (!context->IsCancelled()) {
      state_->changed.WaitUntil(&state_->mutex,
                                std::chrono::steady_clock::now() + std::chrono::milliseconds(2));
    }
    return false;
  }

  const std::shared_ptr<FakeWorkerState> state_;
  static thread_local bool skip_;  // one handler per thread
};

thread_local bool FakePrefillService::skip_ = false;

}  // namespace

int32_t FakeLetter(const std::vector<int32_t>& history) {
  return 'a' + static_cast<int32_t>(HashOf(history) % 26);
}

worker::v1::DecodeFinal FakeBeams(const FakeWorkerState& state,
                                  const worker::v1::Generation& generation) {
  worker::v1::DecodeFinal final;
  for (int32_t i = 0; i < generation.beams().results(); ++i) {
    worker::v1::BeamAnswer* answer = final.add_beams();
    std::vector<int32_t> history = FakeHistory(generation);
    for (int32_t token = 0; token < i + 2; ++token) {
      history.push_back(FakeToken(state, generation, history).id());
      answer->add_ids(history.back());
    }
    answer->set_score(-1 - i / 4.0);
    answer->mutable_ending()->set_cause(worker::v1::FINISH_CAUSE_LENGTH);
    if (i % 2 == 1) continue;
    answer->add_ids(state.options.eos_ids.front());
    answer->mutable_ending()->set_cause(worker::v1::FINISH_CAUSE_STOP_EOS);
    answer->mutable_ending()->set_stop_token_id(state.options.eos_ids.front());
  }
  *final.mutable_ending() = final.beams(0).ending();
  final.set_beam_steps(state.options.beam_steps.value_or(generation.stopping().max_tokens()));
  return final;
}

std::vector<worker::v1::PromptScores> FakeScores(const worker::v1::Generation& generation) {
  std::vector<worker::v1::PromptScores> messages;
  if (!generation.has_score_from()) return messages;
  for (int32_t i = generation.score_from(); i < generation.prompt_ids_size(); ++i) {
    if (messages.empty() || messages.back().scores_size() == 2) {
      messages.emplace_back().set_first_index(i);
    }
    worker::v1::TokenScore* score = messages.back().add_scores();
    score->set_logprob(-static_cast<float>(i) / 8);
    for (int32_t top = 0; top < generation.sampling().num_top_logprobs(); ++top) {
      worker::v1::TopLogprob* likely = score->add_top_logprobs();
      likely->set_id('a' + top);
      likely->set_logprob(-static_cast<float>(top) / 4);
    }
  }
  return messages;
}

std::vector<int32_t> FakeHistory(const worker::v1::Generation& generation) {
  std::vector<int32_t> history(generation.prompt_ids().begin(), generation.prompt_ids().end());
  history.insert(history.end(), generation.generated_ids().begin(),
                 generation.generated_ids().end());
  return history;
}

worker::v1::Token FakeToken(const FakeWorkerState& state, const worker::v1::Generation& generation,
                            const std::vector<int32_t>& history) {
  worker::v1::Token token;
  token.set_index(static_cast<int32_t>(history.size()) - generation.prompt_ids_size());
  token.set_runaway_end(token.index() == state.options.runaway_index);
  std::vector<int32_t> drawn_from = history;
  if (state.options.draws_by_seed) {
    drawn_from.insert(drawn_from.begin(),
                      static_cast<int32_t>(generation.sampling().seed() % 1'000'003));
  }
  token.set_id(state.options.model(drawn_from));
  token.set_logprob(
      state.options.draws_by_seed ? -static_cast<float>(HashOf(drawn_from) % 64) / 16.0F : -0.25F);
  for (int i = 0; i < generation.sampling().num_top_logprobs(); ++i) {
    auto* top = token.add_top_logprobs();
    top->set_id(token.id() + i);
    top->set_logprob(-0.25F - static_cast<float>(i));
  }
  token.set_end_chance(std::ranges::count(state.options.end_chances, token.index()) > 0);
  token.set_unix_time(1'700'000'000.5 + token.index());
  if (generation.probe()) {
    for (int32_t i = 0; i < state.options.probe_dims; ++i) {
      token.add_probe(static_cast<float>(token.index() + i) + 0.25F);
    }
  }
  FakeEstimate(state, generation, &token);
  if (generation.eos_signals()) {
    const float logprob = -1.0F - static_cast<float>(HashOf(history) % 1000) / 256.0F;
    token.mutable_eos()->set_eos_logprob(logprob);
    token.mutable_eos()->set_eos_prob_sampling(std::exp(logprob) / 2);
    token.mutable_eos()->set_eos_rank(1 + static_cast<int32_t>(HashOf(history) % 7));
    token.mutable_eos()->set_entropy(1.5F);
    token.mutable_eos()->set_top1_prob(0.5F);
  }
  return token;
}

void FakeEstimate(const FakeWorkerState& state, const worker::v1::Generation& generation,
                  worker::v1::Token* token) {
  if (!generation.predict() || !state.options.foresees) return;
  worker::v1::EndEstimate* end = token->mutable_end();
  end->Clear();
  end->set_expected_remaining(100.0F + static_cast<float>(token->index()));
  for (int i = 0; i < 5; ++i) end->add_within(0.25F * static_cast<float>(i));
  end->set_predictor("learnt");
}

std::optional<worker::v1::Ending> FakeEndingOf(const FakeWorkerState& state,
                                               const worker::v1::Generation& generation,
                                               const worker::v1::Token& token) {
  const worker::v1::Stopping& stopping = generation.stopping();
  worker::v1::Ending ending;
  ending.set_stop_token_id(token.id());
  const bool honor = stopping.eos_handling() == worker::v1::EOS_HANDLING_HONOR;
  const auto& eos = state.options.eos_ids;
  const auto& stops = stopping.stop_token_ids();
  if (honor && std::find(eos.begin(), eos.end(), token.id()) != eos.end()) {
    ending.set_cause(worker::v1::FINISH_CAUSE_STOP_EOS);
    return ending;
  }
  if (honor && std::find(stops.begin(), stops.end(), token.id()) != stops.end()) {
    ending.set_cause(worker::v1::FINISH_CAUSE_STOP_TOKEN);
    return ending;
  }
  const int32_t fits = state.options.max_model_len - generation.prompt_ids_size();
  const int32_t most = stopping.max_tokens() > 0 ? stopping.max_tokens() : fits;
  if (token.index() == state.options.runaway_index) {
    ending.clear_stop_token_id();
    ending.set_cause(worker::v1::FINISH_CAUSE_RUNAWAY);
    return ending;
  }
  if (token.index() + 1 < most && token.index() != state.options.cut_index) return std::nullopt;
  ending.clear_stop_token_id();
  ending.set_cause(worker::v1::FINISH_CAUSE_LENGTH);
  return ending;
}

bool FakeCluster::Commit(const worker::v1::Ticket& ticket, const worker::v1::Token& first) {
  base::MutexLock lock(&mutex_);
  const auto it = open_.find(ticket.secret());
  if (it == open_.end()) return false;
  it->second(first);
  return true;
}

void FakeCluster::Open(const std::string& secret,
                       std::function<void(const worker::v1::Token&)> committed) {
  base::MutexLock lock(&mutex_);
  open_[secret] = std::move(committed);
}

void FakeCluster::Close(const std::string& secret) {
  base::MutexLock lock(&mutex_);
  open_.erase(secret);
}

void FakeCluster::Ended(FakeEnding ending) {
  base::MutexLock lock(&mutex_);
  endings_.push_back(std::move(ending));
}

std::vector<FakeEnding> FakeCluster::endings() const {
  base::MutexLock lock(&mutex_);
  return endings_;
}

class FakeWorker::Impl {
 public:
  Impl(FakeCluster* cluster, FakeWorkerOptions options)
      : cluster_(cluster), options_(std::move(options)) {
    Start();
  }
  ~Impl() { Stop(); }

  void Start() {
    state_ = std::make_shared<FakeWorkerState>();
    state_->cluster = cluster_;
    state_->options = options_;
    state_->incarnation = options_.incarnation != 0 ? options_.incarnation : RandomBits();
    state_->die = [this] { Kill(); };
    {
      base::MutexLock lock(&state_->mutex);
      state_->load.set_ready(options_.ready);
      state_->load.set_prefill_places_free(options_.prefill_places_free);
      state_->load.set_blocks_total(options_.blocks_total);
      state_->load.set_blocks_free(options_.blocks_total);
    }
    decode_ = std::make_unique<FakeDecodeService>(state_);
    prefill_ = std::make_unique<FakePrefillService>(state_);
    status_ = std::make_unique<FakeStatusService>(state_);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(decode_.get());
    builder.RegisterService(prefill_.get());
    builder.RegisterService(status_.get());
    server_ = builder.BuildAndStart();
    BATON_CHECK(server_ != nullptr) << "fake worker on port " << port_;
  }

  // From any thread, also a stream's own; the server ends behind its back.
  void Kill() {
    if (state_->dead.exchange(true)) return;
    base::MutexLock lock(&mutex_);
    killers_.emplace_back(
        [this, server = server_.get()] { server->Shutdown(std::chrono::system_clock::now()); });
  }

  void Stop() {
    Kill();
    std::vector<std::thread> killers;
    {
      base::MutexLock lock(&mutex_);
      killers.swap(killers_);
    }
    for (std::thread& killer : killers) killer.join();
    server_->Wait();
    server_.reset();
    // Decode streams delete themselves a moment after the server is done with them.
    BATON_CHECK(Eventually([this] { return state_.use_count() <= 4; }));
  }

  FakeCluster* const cluster_;
  const FakeWorkerOptions options_;
  std::shared_ptr<FakeWorkerState> state_;
  std::unique_ptr<FakeDecodeService> decode_;
  std::unique_ptr<FakePrefillService> prefill_;
  std::unique_ptr<FakeStatusService> status_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  base::Mutex mutex_;
  std::vector<std::thread> killers_ ABSL_GUARDED_BY(mutex_);
};

FakeWorker::FakeWorker(FakeCluster* cluster, FakeWorkerOptions options)
    : impl_(std::make_unique<Impl>(cluster, std::move(options))),
      address_("127.0.0.1:" + std::to_string(impl_->port_)) {}

FakeWorker::~FakeWorker() = default;

void FakeWorker::Kill() { impl_->Kill(); }

void FakeWorker::Restart() {
  impl_->Stop();
  impl_->Start();
}

void FakeWorker::Mute() { impl_->state_->mute = true; }

void FakeWorker::SetLoad(std::function<void(worker::v1::WorkerLoad*)> change) {
  base::MutexLock lock(&impl_->state_->mutex);
  change(&impl_->state_->load);
  ++impl_->state_->load_version;
  impl_->state_->changed.NotifyAll();
}

int FakeWorker::decode_streams() const { return impl_->state_->decode_streams; }
int FakeWorker::prefill_streams() const { return impl_->state_->prefill_streams; }
int FakeWorker::open_streams() const { return impl_->state_->open_streams; }

std::vector<worker::v1::Generation> FakeWorker::seen() const {
  base::MutexLock lock(&impl_->state_->mutex);
  return impl_->state_->seen;
}

}  // namespace baton::testing
