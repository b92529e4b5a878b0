#include "router/edge/client_sink.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "router/edge/request_parse.h"

namespace baton {
namespace {

// Coalesced messages stay far below the 4 MiB that clients take by default.
constexpr size_t kMergeBytes = size_t{64} << 10;

bool MergeResponses(v1::GenerateResponse* last, v1::GenerateResponse* next) {
  if (!last->has_delta() || !next->has_delta()) return false;
  if (last->delta().index() != next->delta().index()) return false;
  if (last->delta().text().size() > kMergeBytes || last->ByteSizeLong() > kMergeBytes) return false;
  MergeDelta(last->mutable_delta(), next->mutable_delta());
  return true;
}

int64_t Nanos(base::Instant instant) { return instant.time_since_epoch().count(); }

}  // namespace

size_t BytesHeld(const std::vector<HeldAnswer>& answers) {
  size_t bytes = 0;
  for (const HeldAnswer& answer : answers) {
    for (const v1::Delta& delta : answer.deltas) bytes += BytesHeld(delta);
  }
  return bytes;
}

absl::Status SlowClient(size_t buffer_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kSlowClient, .values = {{"limit", absl::StrCat(buffer_bytes)}}},
      absl::StrCat("more than ", buffer_bytes,
                   " bytes wait for the client; read the stream faster"));
}

void MergePrompt(v1::Prompt* last, v1::Prompt* next) {
  last->mutable_text()->append(next->text());
  last->mutable_token_ids()->MergeFrom(next->token_ids());
  for (auto& logprobs : *next->mutable_logprobs()) last->add_logprobs()->Swap(&logprobs);
}

void MergeDelta(v1::Delta* last, v1::Delta* next) {
  last->mutable_text()->append(next->text());
  last->mutable_token_ids()->MergeFrom(next->token_ids());
  for (auto& logprobs : *next->mutable_logprobs()) last->add_logprobs()->Swap(&logprobs);
  for (auto& step : *next->mutable_eos_steps()) last->add_eos_steps()->Swap(&step);
}

v1::FurtherAnswer* AnswerCollector::Further(int32_t index) {
  while (message_.further_size() < index) message_.add_further();
  return message_.mutable_further(index - 1);
}

void AnswerCollector::Show(v1::Prompt prompt) { MergePrompt(message_.mutable_prompt(), &prompt); }

void AnswerCollector::Append(v1::Delta delta) {
  const int32_t index = delta.index();
  v1::Delta* const output =
      index == 0 ? message_.mutable_output() : Further(index)->mutable_output();
  output->set_index(index);
  MergeDelta(output, &delta);
}

void AnswerCollector::Predict(v1::EndPrediction prediction) {
  const int32_t index = prediction.index();
  *(index == 0 ? message_.add_predictions() : Further(index)->add_predictions()) =
      std::move(prediction);
}

void AnswerCollector::End(v1::Final final) {
  const int32_t index = final.index();
  *(index == 0 ? message_.mutable_final() : Further(index)->mutable_final()) = std::move(final);
}

void AnswerCollector::AddHeld(std::vector<HeldAnswer> answers) {
  for (HeldAnswer& answer : answers) {
    for (v1::Delta& delta : answer.deltas) Append(std::move(delta));
    End(std::move(answer.final));
  }
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
    : options_(std::move(options)),
      linger_(context, options_.linger),
      writer_({.write = [this](const v1::GenerateResponse* message) { Write(*message); },
               .finish =
                   [this](const grpc::Status& status) {
                     grpc::ServerWriteReactor<grpc::ByteBuffer>::Finish(status);
                   },
               .cancel = nullptr,  // which linger_ does
               .dropped = options_.predictions_dropped},
              MergeResponses, options_.buffer_bytes) {}

void StreamSink::Write(const v1::GenerateResponse& message) {
  buffer_ = SerializeResponse(message);
  write_started_ = Nanos(options_.linger.clock->Now());
  StartWrite(&buffer_);
}

void StreamSink::Start(v1::Started started) {
  v1::GenerateResponse message;
  *message.mutable_started() = std::move(started);
  writer_.Send(std::move(message));
}

absl::Status StreamSink::Send(v1::GenerateResponse message) {
  return writer_.Send(std::move(message)) ? absl::OkStatus() : SlowClient(options_.buffer_bytes);
}

absl::Status StreamSink::Show(v1::Prompt prompt) {
  v1::GenerateResponse message;
  *message.mutable_prompt() = std::move(prompt);
  return Send(std::move(message));
}

absl::Status StreamSink::Append(v1::Delta delta) {
  v1::GenerateResponse message;
  *message.mutable_delta() = std::move(delta);
  return Send(std::move(message));
}

void StreamSink::Predict(v1::EndPrediction prediction) {
  v1::GenerateResponse message;
  *message.mutable_prediction() = std::move(prediction);
  writer_.SendHint(std::move(message));
}

absl::Status StreamSink::EndAnswer(v1::Final final) {
  v1::GenerateResponse message;
  *message.mutable_final() = std::move(final);
  return Send(std::move(message));
}

void StreamSink::FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share share) {
  std::vector<v1::GenerateResponse> messages;
  for (HeldAnswer& answer : answers) {
    for (v1::Delta& delta : answer.deltas) messages.emplace_back().mutable_delta()->Swap(&delta);
    messages.emplace_back().mutable_final()->Swap(&answer.final);
  }
  held_ = std::move(share);
  linger_.Begin();
  writer_.SendAll(std::move(messages));
  writer_.Finish(grpc::Status::OK);
}

void StreamSink::Finish(v1::Final final) {
  v1::GenerateResponse message;
  *message.mutable_final() = std::move(final);
  linger_.Begin();
  if (const absl::Status sent = Send(std::move(message)); sent.ok()) {
    writer_.Finish(grpc::Status::OK);
  } else {
    writer_.Abort(ToGrpcStatus(sent));
  }
}

// A client that takes nothing gets no status either.
void StreamSink::Fail(const absl::Status& status) {
  linger_.Begin();
  writer_.Abort(ToGrpcStatus(status));
}

std::optional<base::Instant> StreamSink::StalledSince() const {
  const int64_t started = write_started_.load();
  if (started == 0) return std::nullopt;
  return base::Instant(base::Duration(started));
}

void StreamSink::OnWriteDone(bool ok) {
  write_started_ = 0;
  linger_.Took();
  writer_.OnWriteDone(ok);
}

void StreamSink::OnCancel() {
  writer_.OnCancel();
  gone_.Fire();
}

void StreamSink::OnDone() {
  linger_.End();
  held_ = {};
  self_.reset();
}

std::shared_ptr<UnarySink> UnarySink::Create(grpc::CallbackServerContext* context,
                                             grpc::ByteBuffer* response,
                                             const LingerOptions& linger, ByteBudget* budget,
                                             std::string client) {
  std::shared_ptr<UnarySink> sink(
      new UnarySink(context, response, linger, budget, std::move(client)));
  sink->self_ = sink;
  return sink;
}

absl::Status UnarySink::Show(v1::Prompt prompt) {
  BATON_RETURN_IF_ERROR(gathered_.Add(BytesHeld(prompt)));
  answers_.Show(std::move(prompt));
  return absl::OkStatus();
}

absl::Status UnarySink::Append(v1::Delta delta) {
  BATON_RETURN_IF_ERROR(gathered_.Add(BytesHeld(delta)));
  answers_.Append(std::move(delta));
  return absl::OkStatus();
}

// Without room for it the next token ends the request.
void UnarySink::Predict(v1::EndPrediction prediction) {
  if (gathered_.Add(BytesHeld(prediction)).ok()) answers_.Predict(std::move(prediction));
}

absl::Status UnarySink::EndAnswer(v1::Final final) {
  answers_.End(std::move(final));
  return absl::OkStatus();
}

void UnarySink::Finish(v1::Final final) {
  answers_.End(std::move(final));
  Answer();
}

void UnarySink::FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share /*share*/) {
  answers_.AddHeld(std::move(answers));
  Answer();
}

void UnarySink::Answer() {
  *response_ = SerializeResponse(answers_.message());
  held_ = budget_->Add(client_, response_->Length());
  DropGathered();
  linger_.Begin();
  grpc::ServerUnaryReactor::Finish(grpc::Status::OK);
}

void UnarySink::DropGathered() {
  answers_ = {};
  gathered_.Clear();
}

void UnarySink::OnDone() {
  linger_.End();
  held_ = {};
  self_.reset();
}

void UnarySink::Fail(const absl::Status& status) {
  DropGathered();
  grpc::ServerUnaryReactor::Finish(ToGrpcStatus(status));
}

}  // namespace baton
