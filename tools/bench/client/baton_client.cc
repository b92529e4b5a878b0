#include "tools/bench/client/baton_client.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/status.h"
#include "common/rpc/finish_text.h"
#include "common/rpc/status_map.h"
#include "grpcpp/grpcpp.h"
#include "tools/client/client_flags.h"

namespace baton::bench {
namespace {

using SystemClock = std::chrono::system_clock;

SystemClock::time_point DeadlineIn(base::Duration timeout) {
  return SystemClock::now() + std::chrono::duration_cast<SystemClock::duration>(timeout);
}

v1::EosPolicy PolicyOf(EosMode mode) {
  switch (mode) {
    case EosMode::kMask:
      return v1::EOS_POLICY_IGNORE_MASK;
    case EosMode::kContinue:
      return v1::EOS_POLICY_IGNORE_CONTINUE;
    case EosMode::kHonor:
      break;
  }
  return v1::EOS_POLICY_HONOR;
}

void Fill(const BatonClientOptions& options, const PlannedRequest& request,
          v1::GenerateRequest* proto) {
  v1::GenerationSpec* spec = proto->mutable_spec();
  spec->set_model(options.model);
  spec->set_cache_salt(options.cache_salt);
  spec->set_tag(options.tag);
  if (request.preset.empty()) {
    spec->mutable_sampling()->set_temperature(options.temperature);
  } else {
    spec->set_preset(request.preset);
  }
  if (options.seed) {
    spec->mutable_sampling()->set_seed(*options.seed + static_cast<uint64_t>(request.index));
  }
  spec->mutable_stop()->set_max_tokens(request.max_tokens);
  spec->mutable_stop()->set_eos_policy(PolicyOf(options.eos));
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    proto->mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  } else {
    proto->set_text(std::get<std::string>(request.prompt));
  }
}

void Take(const v1::Final& final, RequestRecord* record) {
  record->finish_reason = std::string(FinishReasonText(final.finish_reason()));
  record->attempts = final.attempts();
  const v1::Usage& usage = final.usage();
  record->prompt_tokens = usage.prompt_tokens();
  record->cached_tokens = usage.cached_tokens();
  record->output_tokens = usage.completion_tokens();
  if (usage.has_natural_end_step()) record->natural_end_step = usage.natural_end_step();
  if (!final.has_timings()) return;
  const v1::Timings& timings = final.timings();
  record->timings = ServerTimings{.queue_ms = timings.queue_ms(),
                                  .prefill_ms = timings.prefill_ms(),
                                  .kv_transfer_ms = timings.kv_transfer_ms(),
                                  .ttft_ms = timings.ttft_ms()};
}

absl::Status NoServer(const std::string& address, std::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("no Baton server at ", address, ": ", std::string(why),
                   "; start one with `baton serve DIR`, or name another with --server"));
}

// Why a connection failed. gRPC tells only a call, so this makes one.
std::string WhyNotConnected(const std::shared_ptr<grpc::Channel>& channel,
                            SystemClock::time_point deadline) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  v1::ListModelsResponse response;
  const grpc::Status status =
      v1::ModelService::NewStub(channel)->ListModels(&context, {}, &response);
  return status.ok() ? "the connection is not stable" : status.error_message();
}

absl::Status WaitUntilReady(const std::shared_ptr<grpc::Channel>& channel,
                            const BatonClientOptions& options, SystemClock::time_point deadline) {
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      return NoServer(options.address, WhyNotConnected(channel, deadline));
    }
    if (!channel->WaitForStateChange(state, deadline)) {
      return NoServer(options.address, absl::StrCat("nothing there spoke gRPC within ",
                                                    base::Seconds(options.connect_timeout), " s"));
    }
    state = channel->GetState(true);
  }
  return absl::OkStatus();
}

}  // namespace

// One request under way. gRPC calls its reactions one at a time.
class BatonClient::Stream final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(BatonClient* client, std::shared_ptr<Observer> observer)
      : client_(client), observer_(std::move(observer)) {}

  void Begin(Stub* stub, const PlannedRequest& planned) {
    Fill(client_->options_, planned, &request_);
    context_.set_deadline(DeadlineIn(client_->options_.timeout));
    NameTenant(client_->options_.as_tenant, &context_);
    stub->async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() {
    cancelled_ = true;
    context_.TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    switch (response_.event_case()) {
      case v1::GenerateResponse::kDelta:
        if (const int32_t tokens = response_.delta().token_ids_size(); tokens > 0) {
          tokens_ += tokens;
          observer_->OnChunk(std::chrono::steady_clock::now(), tokens);
        }
        break;
      case v1::GenerateResponse::kStarted:
        record_.request_id = response_.started().request_id();
        record_.prompt_tokens = response_.started().prompt_tokens();
        break;
      case v1::GenerateResponse::kFinal:
        Take(response_.final(), &record_);
        finished_ = true;
        break;
      default:
        break;
    }
    StartRead(&response_);
  }

  // The last reaction; the client lets go of this object after it.
  void OnDone(const grpc::Status& status) override {
    const base::Instant now = std::chrono::steady_clock::now();
    record_.status = StatusOf(status);
    record_.cancelled = cancelled_ && !record_.status.ok();
    if (!finished_) record_.output_tokens = tokens_;
    std::exchange(observer_, nullptr)->OnEnd(now, std::move(record_));
    client_->Ended(this);
  }

  size_t place = 0;  // in streams_, guarded by the client's mutex

 private:
  absl::Status StatusOf(const grpc::Status& status) const {
    if (status.ok() && !finished_) {
      return absl::InternalError(
          absl::StrCat("the stream ended without its final message, after ", tokens_, " tokens"));
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no end within ", base::Seconds(client_->options_.timeout), " s; ", tokens_,
          " tokens had come; raise --timeout if that is too short (", status.error_message(), ")"));
    }
    return FromGrpcStatus(status);
  }

  BatonClient* const client_;
  std::shared_ptr<Observer> observer_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;  // of every read in turn
  RequestRecord record_;
  int32_t tokens_ = 0;
  bool finished_ = false;
  std::atomic<bool> cancelled_ = false;
};

absl::StatusOr<std::unique_ptr<BatonClient>> BatonClient::Connect(
    const BatonClientOptions& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int32_t i = 0; i < std::max(1, options.connections); ++i) {
    BATON_ASSIGN_OR_RETURN(auto channel, MakeChannel(options.address, options.channel));
    channel->GetState(/*try_to_connect=*/true);
    channels.push_back(std::move(channel));
  }
  const auto deadline = DeadlineIn(options.connect_timeout);
  std::vector<std::unique_ptr<Stub>> stubs;
  for (const auto& channel : channels) {
    BATON_RETURN_IF_ERROR(WaitUntilReady(channel, options, deadline));
    stubs.push_back(v1::InferenceService::NewStub(channel));
  }
  return std::unique_ptr<BatonClient>(new BatonClient(options, std::move(stubs)));
}

BatonClient::BatonClient(BatonClientOptions options, std::vector<std::unique_ptr<Stub>> stubs)
    : options_(std::move(options)), stubs_(std::move(stubs)) {}

BatonClient::~BatonClient() {
  CancelAll();
  base::MutexLock lock(&mutex_);
  while (!streams_.empty()) none_left_.Wait(&mutex_);
}

void BatonClient::Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) {
  const auto stream = std::make_shared<Stream>(this, std::move(observer));
  {
    base::MutexLock lock(&mutex_);
    stream->place = streams_.size();
    streams_.push_back(stream);
  }
  stream->Begin(stubs_[next_stub_++ % stubs_.size()].get(), request);
}

void BatonClient::CancelAll() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    base::MutexLock lock(&mutex_);
    streams = streams_;
  }
  for (const auto& stream : streams) stream->Cancel();
}

void BatonClient::Ended(Stream* stream) {
  std::shared_ptr<Stream> last;  // lets go of it outside the lock
  base::MutexLock lock(&mutex_);
  last = std::move(streams_[stream->place]);
  if (streams_.back() != nullptr) {  // it was not the last one
    streams_.back()->place = stream->place;
    streams_[stream->place] = std::move(streams_.back());
  }
  streams_.pop_back();
  if (streams_.empty()) none_left_.NotifyAll();
}

}  // namespace baton::bench
