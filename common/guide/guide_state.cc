#include "common/guide/guide_state.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace baton {
namespace {

// A mask takes some 50 µs; one that takes this long would be felt by everybody in its step.
constexpr base::Duration kSlowMask = std::chrono::milliseconds(2);

absl::Status TooComplex(GuideKind kind, std::string_view why) {
  const std::string field(GuideFieldName(kind));
  return InvalidArgument(Reason::kLimitExceeded, field,
                         absl::StrCat(field, " became too complex in the course of the answer: ",
                                      std::string(why), "; make it simpler"));
}

}  // namespace

GuideState::GuideState(GuideKind kind, CompiledGuide::State state,
                       std::shared_ptr<const GuideVocabulary> vocabulary, TaskPool* pool)
    : kind_(kind),
      vocabulary_(std::move(vocabulary)),
      pool_(pool),
      state_(std::move(state)),
      words_(vocabulary_->words()) {}

void GuideState::AwaitWork() {
  while (mask_ == MaskState::kInWork) changed_.Wait(&mutex_);
}

absl::Status GuideState::Feed(std::span<const TokenId> tokens) {
  const std::vector<uint32_t> ids(tokens.begin(), tokens.end());
  BatonBuffer error;
  const BatonStatus status = baton_guide_take(state_.get(), ids.data(), ids.size(), &error);
  if (status == BATON_INVALID) return TooComplex(kind_, rust::TakeString(error));
  return status == BATON_OK ? absl::OkStatus() : rust::TakeError(status, error);
}

absl::Status GuideState::TakeAll(std::span<const TokenId> tokens) {
  base::MutexLock lock(&mutex_);
  BATON_CHECK(mask_ == MaskState::kUnknown) << "the answer has begun";
  return Feed(tokens);
}

void GuideState::Take(TokenId token) {
  base::MutexLock lock(&mutex_);
  AwaitWork();
  mask_ = MaskState::kUnknown;
  only_end_ = false;
  if (status_.ok()) status_ = Feed({&token, 1});
}

void GuideState::Prepare() {
  {
    base::MutexLock lock(&mutex_);
    if (mask_ != MaskState::kUnknown) return;
    mask_ = MaskState::kWanted;
  }
  // Where the pool is full, whoever waits for the mask works it out.
  pool_->Submit([self = shared_from_this()] { self->Work(); });
}

void GuideState::Work() {
  {
    base::MutexLock lock(&mutex_);
    if (mask_ != MaskState::kWanted) return;
    mask_ = MaskState::kInWork;
  }
  uint8_t only_end = 0;
  BatonBuffer error;
  const auto begin = std::chrono::steady_clock::now();
  const BatonStatus status =
      baton_guide_mask(state_.get(), words_.data(), words_.size(), &only_end, &error);
  const base::Duration took = std::chrono::steady_clock::now() - begin;
  absl::Status failure;
  if (status == BATON_INVALID) failure = TooComplex(kind_, rust::TakeString(error));
  if (status == BATON_INTERNAL) failure = rust::TakeError(status, error);
  if (!failure.ok()) words_ = vocabulary_->eos_mask();
  base::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(failure);
  only_end_ = status_.ok() && only_end != 0;
  slow_ = took > kSlowMask;
  mask_ = MaskState::kKnown;
  changed_.NotifyAll();
}

std::span<const uint32_t> GuideState::Mask() {
  {
    base::MutexLock lock(&mutex_);
    if (mask_ == MaskState::kUnknown) mask_ = MaskState::kWanted;
  }
  Work();
  base::MutexLock lock(&mutex_);
  AwaitWork();
  return words_;
}

bool GuideState::holds_up() const {
  base::MutexLock lock(&mutex_);
  return slow_ && mask_ != MaskState::kKnown;
}

bool GuideState::only_end() const {
  base::MutexLock lock(&mutex_);
  return only_end_;
}

absl::Status GuideState::status() const {
  base::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace baton
