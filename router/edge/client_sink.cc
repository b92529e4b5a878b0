#include "router/edge/client_sink.h"

#include <utility>

#include "common/rpc/status_map.h"
#include "router/edge/request_parse.h"

namespace baton {
namespace {

// Coalesced messages stay far below the 4 MiB that clients take by default.
constexpr size_t kMergeBytes = size_t{64} << 10;

bool MergeResponses(v1::GenerateResponse* last, v1::GenerateResponse* next) {
  if (!last->has_delta() || !next->has_delta()) return false;
  if (last->delta().text().size() > kMergeBytes || last->ByteSizeLong() > kMergeBytes) return false;
  MergeDelta(last->mutable_delta(), next->mutable_delta());
  return true;
}

int64_t Nanos(base::Instant instant) { return instant.time_since_epoch().count(); }

}  // namespace

void MergeDelta(v1::Delta* last, v1::Delta* next) {
  last->mutable_text()->append(next->text());
  last->mutable_token_ids()->MergeFrom(next->token_ids());
  for (auto& logprobs : *next->mutable_logprobs()) last->add_logprobs()->Swap(&logprobs);
  for (auto& step : *next->mutable_eos_steps()) last->add_eos_steps()->Swap(&step);
}

void GoneSignal::Attach(std::function<void()> gone) {
  {
    base::MutexLock lock(&mutex_);
    if (!fired_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void GoneSignal::Fire() {
  std::function<void()> gone;
  {
    base::MutexLock lock(&mutex_);
    fired_ = true;
    gone = std::move(gone_);
  }
  if (gone) gone();
}

std::shared_ptr<StreamSink> StreamSink::Create(grpc::CallbackServerContext* context,
                                               StreamSinkOptions options) {
  std::shared_ptr<StreamSink> sink(new StreamSink(context, std::move(options)));
  sink->self_ = sink;
  return sink;
}

StreamSink::StreamSink(grpc::CallbackServerContext* context, StreamSinkOptions options)
    : context_(context),
      options_(std::move(options)),
      writer_({.write = [this](const v1::GenerateResponse* message) { Write(*message); },
               .finish =
                   [this](const grpc::Status& status) {
                     grpc::ServerWriteReactor<grpc::ByteBuffer>::Finish(status);
                   },
               .cancel = [this] { context_->TryCancel(); },
               .dropped = options_.predictions_dropped},
              MergeResponses, options_.buffer_bytes) {}

void StreamSink::Write(const v1::GenerateResponse& message) {
  buffer_ = SerializeResponse(message);
  write_started_ = Nanos(options_.clock->Now());
  StartWrite(&buffer_);
}

void StreamSink::Start(v1::Started started) {
  v1::GenerateResponse message;
  *message.mutable_started() = std::move(started);
  writer_.Send(std::move(message));
}

bool StreamSink::Append(v1::Delta delta) {
  v1::GenerateResponse message;
  *message.mutable_delta() = std::move(delta);
  return writer_.Send(std::move(message));
}

void StreamSink::Predict(v1::EndPrediction prediction) {
  v1::GenerateResponse message;
  *message.mutable_prediction() = std::move(prediction);
  writer_.SendHint(std::move(message));
}

void StreamSink::Finish(v1::Final final) {
  v1::GenerateResponse message;
  *message.mutable_final() = std::move(final);
  BreakAfterLinger();
  if (writer_.Send(std::move(message))) {
    writer_.Finish(grpc::Status::OK);
  } else {
    writer_.Abort(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the client is too slow"));
  }
}

void StreamSink::Fail(const absl::Status& status) {
  BreakAfterLinger();
  writer_.Abort(ToGrpcStatus(status));
}

// A client that takes nothing at all gets no status either; its call must not stay open for ever.
void StreamSink::BreakAfterLinger() {
  options_.timers->At(options_.clock->Now() + options_.linger, [weak = weak_from_this()] {
    if (const auto sink = weak.lock()) {
      sink->writer_.Break(grpc::Status(grpc::StatusCode::CANCELLED, "the client takes nothing"));
    }
  });
}

std::optional<base::Instant> StreamSink::StalledSince() const {
  const int64_t started = write_started_.load();
  if (started == 0) return std::nullopt;
  return base::Instant(base::Duration(started));
}

void StreamSink::OnWriteDone(bool ok) {
  write_started_ = 0;
  writer_.OnWriteDone(ok);
}

void StreamSink::OnCancel() {
  writer_.OnCancel();
  gone_.Fire();
}

std::shared_ptr<UnarySink> UnarySink::Create(grpc::ByteBuffer* response) {
  std::shared_ptr<UnarySink> sink(new UnarySink(response));
  sink->self_ = sink;
  return sink;
}

bool UnarySink::Append(v1::Delta delta) {
  MergeDelta(message_.mutable_output(), &delta);
  return true;
}

void UnarySink::Predict(v1::EndPrediction prediction) {
  *message_.add_predictions() = std::move(prediction);
}

void UnarySink::Finish(v1::Final final) {
  *message_.mutable_final() = std::move(final);
  *response_ = SerializeResponse(message_);
  grpc::ServerUnaryReactor::Finish(grpc::Status::OK);
}

void UnarySink::Fail(const absl::Status& status) {
  grpc::ServerUnaryReactor::Finish(ToGrpcStatus(status));
}

}  // namespace baton
