#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/http/http_exchange.h"
#include "common/text/tokenizer.h"
#include "router/edge/byte_budget.h"
#include "router/edge/client_sink.h"
#include "router/edge/gathered_bytes.h"
#include "router/openai/answer_writer.h"
#include "router/openai/openai_request.h"
#include "router/openai/whole_answer.h"

namespace baton {

struct OpenAiSinkOptions {
  const base::Clock* clock = nullptr;
  ByteBudget* budget = nullptr;  // in which an answer counts that is not streamed
  std::string client;            // whose it then is, as Caller has it
  const Tokenizer* tokenizer = nullptr;
  size_t buffer_bytes = 0;  // of the exchange, by which errors name it
  // Called for each prediction that the client does not get, for it reads too slowly.
  std::function<void()> prediction_dropped;
};

// Where the output of a request over HTTP goes: a stream of events, or one answer. A stream's
// header waits for the first token, so that what fails before has the status of its failure. What
// waits for the client is bounded by the exchange.
class OpenAiSink final : public ClientSink {
 public:
  // `request_id` is told in the answer's header. What `options` point to outlives the request.
  static std::shared_ptr<OpenAiSink> Create(std::shared_ptr<HttpExchange> exchange, OpenAiApi api,
                                            std::string request_id, OpenAiSinkOptions options);

  // What the body asks for: once it is read, and before anything of the answer is there.
  void SetShape(const OpenAiShape& shape, const std::vector<std::string>& ignored);
  void SetRequestId(const std::string& request_id) { request_id_ = request_id; }

  void Attach(std::function<void()> gone) override { gone_->Attach(std::move(gone)); }
  void Start(v1::Started started) override;
  absl::Status Show(v1::Prompt prompt) override;
  absl::Status Append(v1::Delta delta) override;
  void Predict(v1::EndPrediction prediction) override;
  absl::Status EndAnswer(v1::Final final) override;
  void Finish(v1::Final final) override;
  void FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share share) override;
  void Fail(const absl::Status& status) override;
  std::optional<base::Instant> StalledSince() const override { return exchange_->StalledSince(); }

 private:
  OpenAiSink(std::shared_ptr<HttpExchange> exchange, OpenAiApi api, std::string request_id,
             OpenAiSinkOptions options);
  bool ReadsSlowly() const;
  HttpHeaders Headers(std::string_view content_type) const;
  // Begins the stream where it has not begun. What `events` are then.
  std::string WithOpening(std::string events);
  // False when the client buffer is full; the events are then lost.
  bool Write(std::string events);
  // The event of the prompt that is held back; "" if none is.
  std::string HeldPrompt();
  void WriteLast(const std::string& events);
  absl::Status SendEvents(std::string events);
  // Counts what whole_ has more than `before`.
  absl::Status CountWhole(size_t before) { return gathered_.Add(whole_->bytes() - before); }
  void ReplyWhole();
  void DropGathered();

  // Held until the answer ends, which is when the server needs it no more.
  const std::shared_ptr<HttpExchange> exchange_;
  const OpenAiSinkOptions options_;
  // The exchange may tell it when this is gone.
  const std::shared_ptr<GoneSignal> gone_ = std::make_shared<GoneSignal>();
  AnswerFacts facts_;
  std::string request_id_;
  std::string ignored_;  // names of fields, as the header has them
  std::optional<AnswerWriter> writer_;
  bool begun_ = false;
  // Its first piece comes while the request waits: what fails then has the status of its failure,
  // so it goes out with what a worker says first.
  std::optional<v1::Prompt> held_prompt_;
  std::optional<WholeAnswer> whole_;  // of what is not streamed; empty before it starts
  GatheredBytes gathered_;            // of whole_
};

}  // namespace baton
