#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "router/edge/client_sink.h"
#include "router/request/answer_group.h"
#include "router/router_probe.h"
#include "router/workers/worker_view.h"

namespace baton {

// The place of one answer in its group: where its flow sends what it has for the client, and tells
// how far it is. Used by whoever runs the flow, but for Gone.
class AnswerPart final : public AnswerSink {
 public:
  AnswerPart(std::shared_ptr<AnswerGroup> group, int32_t index)
      : group_(std::move(group)), index_(index) {}

  void Attach(std::function<void()> gone) override { gone_.Attach(std::move(gone)); }
  void Start(v1::Started started) override { group_->Start(index_, std::move(started)); }
  // The prompt is told beside a single answer only, which has no part.
  absl::Status Show(v1::Prompt /*prompt*/) override { return absl::OkStatus(); }
  absl::Status Append(v1::Delta delta) override { return group_->Append(index_, std::move(delta)); }
  void Predict(v1::EndPrediction prediction) override {
    group_->Predict(index_, std::move(prediction));
  }
  void Finish(v1::Final final) override { group_->Finish(index_, figures_, std::move(final)); }
  // Beams are no answers of a group.
  void FinishHeld(std::vector<HeldAnswer> /*answers*/, ByteBudget::Share /*share*/) override {
    BATON_CHECK(false);
  }
  void Fail(const absl::Status& status) override { group_->Fail(index_, figures_, status); }
  std::optional<base::Instant> StalledSince() const override { return group_->StalledSince(); }

  // The answer has begun at `decode`, which has the prompt's KV cache; empty where it ended before.
  void Begun(const RequestSpec& spec, const std::optional<WorkerKey>& decode) {
    group_->Begun(spec, decode);
  }
  // True for the first answer of the request that ends in an error. The others end with it, so that
  // the log needs no more of them.
  bool IsFirstToFail() { return group_->NoteFailure(); }
  // What the answer took. The flow says so before Finish or Fail.
  void Book(RequestFigures figures) { figures_ = std::move(figures); }
  // The client went. Thread-safe.
  void Gone() { gone_.Fire(); }

 private:
  const std::shared_ptr<AnswerGroup> group_;
  const int32_t index_;
  GoneSignal gone_;
  RequestFigures figures_;
};

}  // namespace baton
