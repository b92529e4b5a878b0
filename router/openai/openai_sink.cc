#include "router/openai/openai_sink.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "router/openai/openai_error.h"

namespace baton {
namespace {

// A header has little room, and a client chose these names.
constexpr size_t kNamesShown = 16;
constexpr size_t kNameBytes = 64;

// Within this time a client that keeps up has taken something. Predictions are for such clients
// alone, so that they take no room in the buffer of others.
constexpr base::Duration kPrompt = std::chrono::milliseconds(100);

std::string ShownName(const std::string& name) {
  std::string shown = name.substr(0, kNameBytes);
  std::ranges::replace_if(
      shown, [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
  return shown;
}

std::string ShownNames(const std::vector<std::string>& names) {
  std::string shown;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    absl::StrAppend(&shown, i > 0 ? ", " : "", ShownName(names[i]));
  }
  if (names.size() > kNamesShown) absl::StrAppend(&shown, ", …");
  return shown;
}

}  // namespace

std::shared_ptr<OpenAiSink> OpenAiSink::Create(std::shared_ptr<HttpExchange> exchange,
                                               OpenAiApi api, std::string request_id,
                                               const base::Clock* clock,
                                               std::function<void()> prediction_dropped) {
  std::shared_ptr<OpenAiSink> sink(new OpenAiSink(std::move(exchange), api, std::move(request_id),
                                                  clock, std::move(prediction_dropped)));
  sink->exchange_->OnGone([gone = sink->gone_] { gone->Fire(); });
  return sink;
}

OpenAiSink::OpenAiSink(std::shared_ptr<HttpExchange> exchange, OpenAiApi api,
                       std::string request_id, const base::Clock* clock,
                       std::function<void()> prediction_dropped)
    : exchange_(std::move(exchange)),
      clock_(clock),
      prediction_dropped_(std::move(prediction_dropped)),
      facts_{.api = api, .shape = {}, .created = static_cast<int64_t>(clock->UnixNow())},
      request_id_(std::move(request_id)) {}

void OpenAiSink::SetShape(const OpenAiShape& shape, const std::vector<std::string>& ignored) {
  facts_.shape = shape;
  ignored_ = ShownNames(ignored);
}

HttpHeaders OpenAiSink::Headers(std::string_view content_type) const {
  HttpHeaders headers = {{"content-type", std::string(content_type)},
                         {"x-request-id", request_id_}};
  if (!ignored_.empty()) headers.emplace_back("baton-ignored-fields", ignored_);
  return headers;
}

bool OpenAiSink::ReadsSlowly() const {
  const auto since = StalledSince();
  return since && clock_->Now() - *since > kPrompt;
}

bool OpenAiSink::Write(std::string events) {
  if (!begun_) {
    begun_ = true;
    HttpHeaders headers = Headers("text/event-stream");
    headers.emplace_back("cache-control", "no-cache");
    headers.emplace_back("x-accel-buffering", "no");  // a proxy passes each event on
    exchange_->Begin(200, std::move(headers));
    events = writer_->Opening() + events;
  }
  return events.empty() || exchange_->Write(std::move(events));
}

void OpenAiSink::Start(v1::Started started) {
  writer_.emplace(facts_);
  writer_->Start(started);
  if (!facts_.shape.stream) whole_.Start(std::move(started));
}

bool OpenAiSink::Show(v1::Prompt prompt) {
  if (!facts_.shape.stream) {
    whole_.Show(std::move(prompt));
    return true;
  }
  if (!prompt.token_ids().empty()) {
    held_prompt_ = std::move(prompt);
    return true;
  }
  std::string events = HeldPrompt();
  return Write(std::move(events) + writer_->PromptEvent(prompt));
}

std::string OpenAiSink::HeldPrompt() {
  if (!held_prompt_) return "";
  const v1::Prompt prompt = *std::exchange(held_prompt_, std::nullopt);
  return writer_->PromptEvent(prompt);
}

bool OpenAiSink::Append(v1::Delta delta) {
  if (facts_.shape.stream) {
    std::string events = HeldPrompt();
    return Write(std::move(events) + writer_->DeltaEvent(delta));
  }
  whole_.Append(std::move(delta));
  return true;
}

void OpenAiSink::Predict(v1::EndPrediction prediction) {
  if (!facts_.shape.extension) return;
  if (!facts_.shape.stream) {
    whole_.Predict(std::move(prediction));
  } else if (ReadsSlowly() || !Write(writer_->PredictionEvent(prediction))) {
    prediction_dropped_();
  }
}

bool OpenAiSink::EndAnswer(v1::Final final) {
  if (facts_.shape.stream) return Write(writer_->EndEvent(final));
  whole_.End(std::move(final));
  return true;
}

void OpenAiSink::Finish(v1::Final final) {
  if (facts_.shape.stream) return WriteLast(writer_->LastEvents(final));
  whole_.End(std::move(final));
  ReplyWhole();
}

void OpenAiSink::FinishHeld(std::vector<HeldAnswer> answers) {
  if (!facts_.shape.stream) {
    whole_.AddHeld(std::move(answers));
    return ReplyWhole();
  }
  // In one piece, which is taken however large it is.
  std::string events;
  for (const HeldAnswer& answer : answers) {
    for (const v1::Delta& delta : answer.deltas) events += writer_->DeltaEvent(delta);
    const bool last = &answer == &answers.back();
    events += last ? writer_->LastEvents(answer.final) : writer_->EndEvent(answer.final);
  }
  WriteLast(events);
}

void OpenAiSink::WriteLast(const std::string& events) {
  std::string before = HeldPrompt();
  if (Write(std::move(before) + events)) {
    exchange_->End();
  } else {
    exchange_->Abort();
  }
}

void OpenAiSink::ReplyWhole() {
  exchange_->Reply({.status = 200,
                    .headers = Headers("application/json"),
                    .body = writer_->Whole(whole_.message())});
}

void OpenAiSink::Fail(const absl::Status& status) {
  const OpenAiNames& names = facts_.shape.names;
  if (!begun_) {
    HttpReply reply = OpenAiErrorReply(status, facts_.api, names);
    reply.headers.emplace_back("x-request-id", request_id_);
    if (!ignored_.empty()) reply.headers.emplace_back("baton-ignored-fields", ignored_);
    exchange_->Reply(std::move(reply));
  } else if (exchange_->Write(
                 AnswerWriter::ErrorEvent(OpenAiErrorJson(status, facts_.api, names)))) {
    exchange_->End();
  } else {
    exchange_->Abort();
  }
}

}  // namespace baton
