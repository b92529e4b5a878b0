#include "router/request/answer_group.h"

#include <utility>

#include "common/base/status.h"
#include "common/sample/answer_seed.h"
#include "router/request/answer_part.h"
#include "router/request/request_flow.h"

namespace baton {
namespace {

// The prompt counts once, with the first of the answers that are given.
void CountPrompt(const v1::Usage& total, v1::Final* final) {
  const bool first = final->index() == 0;
  final->mutable_usage()->set_prompt_tokens(first ? total.prompt_tokens() : 0);
  final->mutable_usage()->set_cached_tokens(first ? total.cached_tokens() : 0);
}

}  // namespace

AnswerGroup::AnswerGroup(FlowContext* context, Request request)
    : context_(context),
      tenant_(request.spec.tenant),
      request_id_(request.spec.request_id),
      best_(request.spec.best),
      sink_(std::move(request.sink)),
      arrived_(request.arrived),
      deadline_(request.deadline),
      transport_(request.transport),
      trace_(request.trace != nullptr ? std::optional(request.trace->context()) : std::nullopt),
      first_(std::move(request.spec)),
      first_trace_(std::move(request.trace)),
      roll_(first_.answers),
      gathered_(context->budget, first_.client) {
  if (first_.ranked()) held_.emplace(first_.answers);
}

AnswerGroup::~AnswerGroup() = default;

void AnswerGroup::Begin() {
  std::shared_ptr<RequestFlow> flow;
  bool drained = false;
  {
    base::MutexLock lock(&mutex_);
    flow = AddMember(std::move(first_), std::move(first_trace_));
    drained = drained_;
  }
  sink_->Attach([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnClientGone();
  });
  flow->Begin();
  if (drained) flow->EndByDrain();
}

std::shared_ptr<RequestFlow> AnswerGroup::AddMember(RequestSpec spec,
                                                    std::unique_ptr<RequestTrace> trace) {
  const auto part = std::make_shared<AnswerPart>(shared_from_this(), spec.index);
  auto flow = std::make_shared<RequestFlow>(context_, std::move(spec), part, arrived_, deadline_,
                                            std::move(trace), part.get());
  members_.push_back({.part = part, .flow = flow});
  return flow;
}

std::vector<AnswerGroup::Member> AnswerGroup::Members() const {
  base::MutexLock lock(&mutex_);
  return members_;
}

void AnswerGroup::EndByDrain() {
  {
    base::MutexLock lock(&mutex_);
    drained_ = true;
  }
  for (const Member& member : Members()) member.flow->EndByDrain();
}

void AnswerGroup::AddReports(std::vector<RequestReport>* reports) const {
  for (const Member& member : Members()) member.flow->AddReports(reports);
}

void AnswerGroup::OnClientGone() {
  {
    base::MutexLock lock(&mutex_);
    gone_ = true;
  }
  for (const Member& member : Members()) member.part->Gone();
}

void AnswerGroup::Start(int32_t index, v1::Started started) {
  base::MutexLock lock(&mutex_);
  if (index == 0 && !roll_.failure()) sink_->Start(std::move(started));
}

absl::Status AnswerGroup::Append(int32_t index, v1::Delta delta) {
  base::MutexLock lock(&mutex_);
  if (roll_.failure()) return absl::OkStatus();
  delta.set_index(index);
  if (!held_) return sink_->Append(std::move(delta));
  BATON_RETURN_IF_ERROR(gathered_.Add(BytesHeld(delta)));
  held_->Append(std::move(delta));
  return absl::OkStatus();
}

void AnswerGroup::Predict(int32_t index, v1::EndPrediction prediction) {
  base::MutexLock lock(&mutex_);
  if (roll_.failure()) return;
  prediction.set_index(index);
  sink_->Predict(std::move(prediction));
}

void AnswerGroup::Begun(const RequestSpec& spec, const std::optional<WorkerKey>& decode) {
  if (spec.index != 0) return;
  std::vector<std::shared_ptr<RequestFlow>> others;
  bool gone = false;
  {
    base::MutexLock lock(&mutex_);
    if (!roll_.OpenOthers()) return;
    for (int32_t index = 1; index < spec.answers; ++index) {
      RequestSpec other = spec;
      other.index = index;
      other.sampling.seed = SeedOfAnswer(spec.sampling.seed, index);
      auto trace =
          trace_ ? RequestTrace::Begin(context_->tracer, trace_, transport_, context_->clock->Now())
                 : nullptr;
      others.push_back(AddMember(std::move(other), std::move(trace)));
    }
    gone = gone_;
  }
  for (const auto& flow : others) flow->BeginBeside(decode);
  // Who went before these were there has not been told to them.
  if (gone) OnClientGone();
}

void AnswerGroup::Account(int32_t index, const v1::Usage& usage) {
  usage_.set_completion_tokens(usage_.completion_tokens() + usage.completion_tokens());
  if (index != 0) return;
  usage_.set_prompt_tokens(usage.prompt_tokens());
  usage_.set_cached_tokens(usage.cached_tokens());
}

void AnswerGroup::Finish(int32_t index, const RequestFigures& figures, v1::Final final) {
  absl::Status taken;
  {
    base::MutexLock lock(&mutex_);
    roll_.Over(index, figures);
    if (!roll_.failure()) {
      final.set_index(index);
      Account(index, final.usage());
      if (held_) {
        held_->End(std::move(final));
      } else {
        CountPrompt(usage_, &final);
        if (roll_.all_over()) {
          last_ = std::move(final);
        } else {
          taken = sink_->EndAnswer(std::move(final));
        }
      }
    }
  }
  if (!taken.ok()) EndAll(taken, FinishReason::kError);
  ConcludeIfOver();
}

void AnswerGroup::Fail(int32_t index, const RequestFigures& figures, const absl::Status& status) {
  {
    base::MutexLock lock(&mutex_);
    roll_.Over(index, figures);
  }
  EndAll(status, figures.reason);
  ConcludeIfOver();
}

void AnswerGroup::EndAll(const absl::Status& status, FinishReason reason) {
  {
    base::MutexLock lock(&mutex_);
    if (!roll_.Fail(status, reason)) return;
  }
  for (const Member& member : Members()) member.flow->EndWith(status, reason);
}

std::optional<base::Instant> AnswerGroup::StalledSince() const {
  base::MutexLock lock(&mutex_);
  return sink_->StalledSince();
}

bool AnswerGroup::NoteFailure() {
  base::MutexLock lock(&mutex_);
  return !std::exchange(any_failed_, true);
}

void AnswerGroup::ConcludeIfOver() {
  std::vector<Member> members;  // destroyed without the lock
  std::optional<AnswerRoll::Failure> failure;
  std::optional<v1::Final> last;
  std::vector<HeldAnswer> best;
  ByteBudget::Share share;  // of these
  RequestFigures total;
  {
    base::MutexLock lock(&mutex_);
    if (members_.empty() || !roll_.all_over()) return;
    members.swap(members_);
    failure = roll_.failure();
    total = roll_.Total();
    if (!failure && held_) {
      best = held_->TakeBest(best_);
      for (HeldAnswer& answer : best) CountPrompt(usage_, &answer.final);
      *best.back().final.mutable_total_usage() = usage_;
      share = gathered_.Become(BytesHeld(best));
    } else if (!failure) {
      last = std::move(last_);
      *last->mutable_total_usage() = usage_;
    }
    held_.reset();
    gathered_.Clear();
  }
  // The books are closed first, as those of a lone flow.
  context_->probe->RequestEnded(total);
  context_->registry->Remove(tenant_, request_id_);
  if (failure) {
    sink_->Fail(failure->status);
  } else if (last) {
    sink_->Finish(*std::move(last));
  } else {
    sink_->FinishHeld(std::move(best), std::move(share));
  }
}

}  // namespace baton
