#include "tests/fakes/timed_inference_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "tests/fakes/alarm.h"

namespace baton::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int32_t kToken = 7;
constexpr double kPrefillMs = 1.5;

// What the server and its streams share.
struct State {
  explicit State(TimedServerOptions given) : options(std::move(given)) {}

  const TimedServerOptions options;
  Alarm alarm;
  mutable base::Mutex mutex;
  mutable base::CondVar changed;
  std::vector<v1::GenerateRequest> requests ABSL_GUARDED_BY(mutex);
  std::vector<std::string> tenants ABSL_GUARDED_BY(mutex);
  int open ABSL_GUARDED_BY(mutex) = 0;
  int most_open ABSL_GUARDED_BY(mutex) = 0;
  base::Instant frozen_from ABSL_GUARDED_BY(mutex) = base::kNever;
  base::Instant frozen_until ABSL_GUARDED_BY(mutex) = base::kNever;

  void Opened(const v1::GenerateRequest& request, std::string tenant) {
    base::MutexLock lock(&mutex);
    tenants.push_back(std::move(tenant));
    if (requests.empty()) {
      frozen_from = SteadyClock::now() + options.freeze_after;
      frozen_until = frozen_from + options.freeze_for;
    }
    requests.push_back(request);
    most_open = std::max(most_open, ++open);
    changed.NotifyAll();
  }

  void Closed() {
    base::MutexLock lock(&mutex);
    --open;
    changed.NotifyAll();
  }

  // The end of the freeze that now is in, if it is.
  std::optional<base::Instant> FrozenUntil() const {
    base::MutexLock lock(&mutex);
    const base::Instant now = SteadyClock::now();
    if (now < frozen_from || now >= frozen_until) return std::nullopt;
    return frozen_until;
  }
};

// Started, deltas, Final, each at its time.
class TimedStream final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                          public std::enable_shared_from_this<TimedStream> {
 public:
  TimedStream(State* state, const v1::GenerateRequest& request)
      : state_(state),
        max_tokens_(request.spec().stop().max_tokens()),
        eos_ignored_(request.spec().stop().eos_policy() > v1::EOS_POLICY_HONOR),
        prompt_tokens_(request.has_token_ids() ? request.token_ids().ids_size()
                                               : static_cast<int32_t>(request.text().size())) {}

  void Begin() {
    self_ = shared_from_this();
    due_ = SteadyClock::now() + state_->options.ttft;
    StepAt(due_);
  }

  void OnWriteDone(bool ok) override {
    {
      base::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) cancelled_ = true;
      if (cancelled_) return FinishOnce(grpc::Status::CANCELLED);
    }
    const bool between_tokens = tokens_ > 0 && tokens_ < Goal();
    if (between_tokens) due_ += state_->options.gap;
    StepAt(between_tokens ? due_ : SteadyClock::now());
  }

  void OnCancel() override {
    base::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (!writing_) FinishOnce(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    state_->Closed();
    self_.reset();
  }

 private:
  int32_t Goal() const {
    const int32_t stop = state_->options.stop_after;
    return stop < 0 ? max_tokens_ : std::min(stop, max_tokens_);
  }

  void StepAt(base::Instant when) {
    state_->alarm.At(when, [stream = shared_from_this()] { stream->Step(); });
  }

  void Step() {
    if (const auto until = state_->FrozenUntil()) return StepAt(*until);
    base::MutexLock lock(&mutex_);
    if (cancelled_ || finished_) return;
    if (tokens_ >= Goal() && state_->options.end != TimedEnd::kFinal) return EndBadly();
    Compose();
    writing_ = true;
    if (response_.has_final()) {
      finished_ = true;
      StartWriteAndFinish(&response_, {}, grpc::Status::OK);
    } else {
      StartWrite(&response_);
    }
  }

  void Compose() {
    response_.Clear();
    if (!started_) {
      started_ = true;
      response_.mutable_started()->set_request_id("timed");
      response_.mutable_started()->set_prompt_tokens(prompt_tokens_);
    } else if (tokens_ < Goal()) {
      v1::Delta* delta = response_.mutable_delta();
      const int32_t end = std::min(Goal(), tokens_ + state_->options.tokens_per_message);
      for (; tokens_ < end; ++tokens_) delta->add_token_ids(kToken);
      delta->set_text("word");
    } else {
      ComposeFinal(response_.mutable_final());
    }
  }

  void ComposeFinal(v1::Final* final) const {
    final->set_finish_reason(v1::FINISH_REASON_LENGTH);
    final->set_attempts(1);
    final->mutable_usage()->set_prompt_tokens(prompt_tokens_);
    final->mutable_usage()->set_completion_tokens(tokens_);
    if (const auto natural = state_->options.natural_end_step; natural && eos_ignored_) {
      final->mutable_usage()->set_natural_end_step(*natural);
    }
    final->mutable_timings()->set_prefill_ms(kPrefillMs);
  }

  void EndBadly() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (state_->options.end == TimedEnd::kHang) return;
    FinishOnce(state_->options.end == TimedEnd::kStatus ? state_->options.status
                                                        : grpc::Status::OK);
  }

  void FinishOnce(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  State* const state_;
  const int32_t max_tokens_;
  const bool eos_ignored_;
  const int32_t prompt_tokens_;
  std::shared_ptr<TimedStream> self_;  // until OnDone
  // These belong to whoever runs the stream: the alarm and gRPC take turns.
  v1::GenerateResponse response_;
  base::Instant due_;
  bool started_ = false;
  int32_t tokens_ = 0;

  base::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

class Inference final : public v1::InferenceService::CallbackService {
 public:
  explicit Inference(State* state) : state_(state) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override {
    const auto tenant = context->client_metadata().find("baton-tenant");
    const bool named = tenant != context->client_metadata().end();
    state_->Opened(*request,
                   named ? std::string(tenant->second.begin(), tenant->second.end()) : "");
    const auto stream = std::make_shared<TimedStream>(state_, *request);
    stream->Begin();
    return stream.get();
  }

 private:
  State* const state_;
};

class Model final : public v1::ModelService::Service {
 public:
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    response->add_names("timed");
    return grpc::Status::OK;
  }
  grpc::Status GetModelInfo(grpc::ServerContext*, const v1::GetModelInfoRequest*,
                            v1::GetModelInfoResponse* response) override {
    response->set_name("timed");
    response->set_max_model_len(1 << 20);
    response->set_vocab_size(256);
    response->add_eos_tokens()->set_id(2);
    return grpc::Status::OK;
  }
};

}  // namespace

class TimedInferenceServer::Impl final {
 public:
  explicit Impl(TimedServerOptions options) : state(std::move(options)), inference_(&state) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&inference_);
    builder.RegisterService(&model_);
    server_ = builder.BuildAndStart();
  }
  ~Impl() {
    Kill();
    state.alarm.Stop();
  }

  void Kill() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  State state;
  int port = 0;

 private:
  Inference inference_;
  Model model_;
  std::unique_ptr<grpc::Server> server_;
};

TimedInferenceServer::TimedInferenceServer(TimedServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))),
      address_(absl::StrCat("127.0.0.1:", impl_->port)) {}

TimedInferenceServer::~TimedInferenceServer() = default;

void TimedInferenceServer::Kill() { impl_->Kill(); }

std::vector<v1::GenerateRequest> TimedInferenceServer::requests() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.requests;
}

std::vector<std::string> TimedInferenceServer::tenants() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.tenants;
}

int TimedInferenceServer::open_streams() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.open;
}

int TimedInferenceServer::most_open_streams() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.most_open;
}

bool TimedInferenceServer::WaitForOpenStreams(int count) const {
  const base::Instant until = SteadyClock::now() + std::chrono::minutes(1);
  base::MutexLock lock(&impl_->state.mutex);
  while (impl_->state.open != count) {
    if (!impl_->state.changed.WaitUntil(&impl_->state.mutex, until)) return false;
  }
  return true;
}

base::Instant TimedInferenceServer::frozen_from() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.frozen_from;
}

base::Instant TimedInferenceServer::frozen_until() const {
  base::MutexLock lock(&impl_->state.mutex);
  return impl_->state.frozen_until;
}

}  // namespace baton::testing
