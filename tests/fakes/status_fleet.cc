#include "tests/fakes/status_fleet.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/ticket.h"
#include "common/base/timer_queue.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace baton::testing {
namespace {

using StatusReactor = grpc::ServerBidiReactor<worker::v1::WatchRequest, worker::v1::WatchResponse>;
constexpr base::Duration kOwnInterval = std::chrono::milliseconds(50);

// What the streams of a fleet share.
struct FleetState {
  StatusFleet::Options options;
  base::SteadyClock clock;
  base::TimerQueue timers{&clock};
  std::atomic<int64_t> statuses{0};
  base::Mutex mutex;
  std::map<const void*, base::Duration> intervals ABSL_GUARDED_BY(mutex);  // of open streams
};

// One router's Watch. Keeps itself alive until OnDone; ticks hold weak references.
class FleetStream final : public StatusReactor, public std::enable_shared_from_this<FleetStream> {
 public:
  explicit FleetStream(std::shared_ptr<FleetState> state) : state_(std::move(state)) {}

  void Start() {
    self_ = shared_from_this();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const base::Duration wanted = std::chrono::milliseconds(request_.min_interval_ms());
    {
      base::MutexLock lock(&state_->mutex);
      state_->intervals[this] = wanted;
    }
    base::MutexLock lock(&mutex_);
    interval_ = std::max(kOwnInterval, wanted);
    if (!introduced_) Introduce();
    if (!finished_) StartRead(&request_);
  }
  void OnWriteDone(bool /*ok*/) override {
    base::MutexLock lock(&mutex_);
    writing_ = false;
  }
  void OnCancel() override {
    base::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    {
      base::MutexLock lock(&state_->mutex);
      state_->intervals.erase(this);
    }
    self_.reset();
  }

 private:
  void Introduce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    introduced_ = true;
    const StatusFleet::Options& options = state_->options;
    worker::v1::WorkerIdentity* const identity = response_.mutable_identity();
    identity->set_role(options.role);
    identity->set_incarnation(RandomBits());
    identity->mutable_protocol()->set_major(1);
    identity->set_model_fingerprint("model");
    *identity->mutable_layout() = options.layout;
    identity->set_numerics("fake");
    identity->set_max_model_len(options.max_model_len);
    identity->set_compute_dtype("float32");
    worker::v1::WorkerLoad* const load = response_.mutable_load();
    load->set_ready(true);
    load->set_prefill_places_free(64);
    load->set_blocks_total(4096);
    Say();
    Schedule();
  }

  void Say() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++state_->statuses;
    const auto said = static_cast<int32_t>(++said_);
    response_.mutable_load()->set_queued_prompt_tokens(said % 1000);
    response_.mutable_load()->set_blocks_used(said % 4096);
    response_.mutable_load()->set_blocks_free(4096 - said % 4096);
    response_.mutable_share()->set_places(64);
    response_.mutable_share()->set_prompt_tokens(4096);
    writing_ = true;
    StartWrite(&response_);
  }

  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    state_->timers.After(interval_, [weak = weak_from_this()] {
      if (const auto stream = weak.lock()) stream->Tick();
    });
  }

  void Tick() {
    base::MutexLock lock(&mutex_);
    if (finished_) return;
    if (!writing_) {
      response_.clear_identity();
      Say();
    }
    Schedule();
  }

  const std::shared_ptr<FleetState> state_;  // a stream may end after its fleet
  std::shared_ptr<FleetStream> self_;        // until OnDone
  worker::v1::WatchRequest request_;         // the reader's
  base::Mutex mutex_;
  worker::v1::WatchResponse response_ ABSL_GUARDED_BY(mutex_);
  base::Duration interval_ ABSL_GUARDED_BY(mutex_){};
  uint64_t said_ ABSL_GUARDED_BY(mutex_) = 0;
  bool introduced_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

struct StatusFleet::Service final : worker::v1::StatusService::CallbackService {
  explicit Service(const Options& options) { state->options = options; }
  StatusReactor* Watch(grpc::CallbackServerContext* /*context*/) override {
    const auto stream = std::make_shared<FleetStream>(state);
    stream->Start();
    return stream.get();
  }

  const std::shared_ptr<FleetState> state = std::make_shared<FleetState>();
  std::unique_ptr<grpc::Server> server;
};

StatusFleet::StatusFleet(const Options& options) : service_(std::make_unique<Service>(options)) {
  std::vector<int> ports(static_cast<size_t>(options.workers));
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (int& port : ports) {
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  }
  builder.RegisterService(service_.get());
  service_->server = builder.BuildAndStart();
  BATON_CHECK(service_->server != nullptr) << options.workers << " ports on loopback";
  for (const int port : ports) addresses_.push_back("127.0.0.1:" + std::to_string(port));
}

StatusFleet::~StatusFleet() {
  service_->state->timers.Stop();
  service_->server->Shutdown(std::chrono::system_clock::now());
  service_->server->Wait();
}

int StatusFleet::streams() const { return StreamsThatWant(base::Duration()); }
int64_t StatusFleet::statuses() const { return service_->state->statuses; }

int StatusFleet::StreamsThatWant(base::Duration interval) const {
  base::MutexLock lock(&service_->state->mutex);
  return static_cast<int>(std::ranges::count_if(
      service_->state->intervals, [&](const auto& of) { return of.second >= interval; }));
}

}  // namespace baton::testing
