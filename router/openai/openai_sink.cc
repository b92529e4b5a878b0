#include "router/openai/openai_sink.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
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
                                               OpenAiSinkOptions options) {
  std::shared_ptr<OpenAiSink> sink(
      new OpenAiSink(std::move(exchange), api, std::move(request_id), std::move(options)));
  sink->exchange_->OnGone([gone = sink->gone_] { gone->Fire(); });
  return sink;
}

OpenAiSink::OpenAiSink(std::shared_ptr<HttpExchange> exchange, OpenAiApi api,
                       std::string request_id, OpenAiSinkOptions options)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      facts_{.api = api, .shape = {}, .created = static_cast<int64_t>(options_.clock->UnixNow())},
      request_id_(std::move(request_id)),
      gathered_(options_.budget, options_.client) {}

void OpenAiSink::SetShape(const OpenAiShape& shape, const std::vector<std::string>& ignored) {
  facts_.shape = shape;
  if (shape.skip_special_tokens) {
    facts_.left_out = [tokenizer = options_.tokenizer](TokenId id) {
      return tokenizer->IsSpecial(id);
    };
  }
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
  return since && options_.clock->Now() - *since > kPrompt;
}

std::string OpenAiSink::WithOpening(std::string events) {
  if (std::exchange(begun_, true)) return events;
  HttpHeaders headers = Headers("text/event-stream; charset=utf-8");
  headers.emplace_back("cache-control", "no-cache");
  headers.emplace_back("x-accel-buffering", "no");  // a proxy passes each event on
  exchange_->Begin(200, std::move(headers));
  return writer_->Opening() + events;
}

bool OpenAiSink::Write(std::string events) {
  events = WithOpening(std::move(events));
  return events.empty() || exchange_->Write(std::move(events));
}

void OpenAiSink::Start(v1::Started started) {
  if (facts_.shape.stream) {
    writer_.emplace(facts_).Start(started);
  } else {
    whole_.emplace(facts_).Start(started);
  }
}

absl::Status OpenAiSink::SendEvents(std::string events) {
  return Write(std::move(events)) ? absl::OkStatus() : SlowClient(options_.buffer_bytes);
}

absl::Status OpenAiSink::Show(v1::Prompt prompt) {
  if (!facts_.shape.stream) {
    const size_t before = whole_->bytes();
    whole_->Show(prompt);
    return CountWhole(before);
  }
  if (!prompt.token_ids().empty()) {
    held_prompt_ = std::move(prompt);
    return absl::OkStatus();
  }
  std::string events = HeldPrompt();
  return SendEvents(std::move(events) + writer_->PromptEvent(prompt));
}

std::string OpenAiSink::HeldPrompt() {
  if (!held_prompt_) return "";
  const v1::Prompt prompt = *std::exchange(held_prompt_, std::nullopt);
  return writer_->PromptEvent(prompt);
}

absl::Status OpenAiSink::Append(v1::Delta delta) {
  if (facts_.shape.stream) {
    std::string events = HeldPrompt();
    return SendEvents(std::move(events) + writer_->DeltaEvent(delta));
  }
  const size_t before = whole_->bytes();
  whole_->Append(delta);
  return CountWhole(before);
}

void OpenAiSink::Predict(v1::EndPrediction prediction) {
  if (!facts_.shape.extension) return;
  if (!facts_.shape.stream) {
    // The next token ends the request where there was no room for this.
    const size_t before = whole_->bytes();
    whole_->Predict(prediction);
    CountWhole(before).IgnoreError();
  } else if (ReadsSlowly() || !Write(writer_->PredictionEvent(prediction))) {
    options_.prediction_dropped();
  }
}

absl::Status OpenAiSink::EndAnswer(v1::Final final) {
  if (facts_.shape.stream) return SendEvents(writer_->EndEvent(final));
  whole_->End(final);
  return absl::OkStatus();
}

void OpenAiSink::Finish(v1::Final final) {
  if (facts_.shape.stream) return WriteLast(writer_->LastEvents(final));
  whole_->End(final);
  ReplyWhole();
}

void OpenAiSink::FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share /*share*/) {
  if (!facts_.shape.stream) {
    for (HeldAnswer& answer : answers) {
      for (const v1::Delta& delta : answer.deltas) whole_->Append(delta);
      whole_->End(answer.final);
      answer = {};
    }
    return ReplyWhole();
  }
  std::string events = HeldPrompt();
  for (HeldAnswer& answer : answers) {
    for (const v1::Delta& delta : answer.deltas) events += writer_->DeltaEvent(delta);
    const bool last = &answer == &answers.back();
    events += last ? writer_->LastEvents(answer.final) : writer_->EndEvent(answer.final);
    answer = {};
  }
  events = WithOpening(std::move(events));
  auto held =
      std::make_shared<ByteBudget::Share>(options_.budget->Add(options_.client, events.size()));
  exchange_->WriteLast(std::move(events), std::move(held));
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
  TextPieces text = whole_->Take();
  HttpReply reply{.status = 200, .headers = Headers("application/json")};
  reply.held =
      std::make_shared<ByteBudget::Share>(options_.budget->Add(options_.client, text.bytes()));
  reply.rest = text.Take();
  reply.body = std::move(reply.rest.front());
  reply.rest.erase(reply.rest.begin());
  DropGathered();
  exchange_->Reply(std::move(reply));
}

void OpenAiSink::DropGathered() {
  whole_.reset();
  gathered_.Clear();
}

void OpenAiSink::Fail(const absl::Status& status) {
  DropGathered();
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
