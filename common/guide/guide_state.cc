#include "common/guide/guide_state.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace baton {
namespace {

// A mask takes some 50 µs; work that takes this long would be felt by everybody in its step.
constexpr base::Duration kSlow = std::chrono::milliseconds(2);

// Forced ids that are worked out at once, each of which takes some 10 µs.
constexpr size_t kMostForced = 64;

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

void GuideState::Await(Stage at_work) {
  while (stage_ == at_work) changed_.Wait(&mutex_);
}

absl::Status GuideState::Feed(std::span<const TokenId> tokens) {
  if (tokens.empty()) return absl::OkStatus();
  const std::vector<uint32_t> ids(tokens.begin(), tokens.end());
  BatonBuffer error;
  const BatonStatus status = baton_guide_take(state_.get(), ids.data(), ids.size(), &error);
  if (status == BATON_INVALID) return TooComplex(kind_, rust::TakeString(error));
  if (status != BATON_OK) return rust::TakeError(status, error);
  last_ = tokens.back();
  return absl::OkStatus();
}

absl::Status GuideState::TakeAll(std::span<const TokenId> tokens) {
  base::MutexLock lock(&mutex_);
  BATON_CHECK(stage_ == Stage::kNothing) << "the answer has begun";
  return Feed(tokens);
}

void GuideState::Take(TokenId token) {
  base::MutexLock lock(&mutex_);
  Await(Stage::kForcing);
  if (comes_forced()) {
    const TokenId due = forced_[forced_taken_++];
    if (token != due && status_.ok()) {
      status_ = TooComplex(kind_, absl::StrCat("token ", token, " came where only ", due, " may"));
    }
    if (!comes_forced() && !forced_whole_) stage_ = Stage::kNothing;
    return;
  }
  Await(Stage::kMasking);
  stage_ = Stage::kNothing;
  only_end_ = false;
  if (status_.ok()) status_ = Feed({&token, 1});
}

void GuideState::Prepare() {
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kNothing) return;
    stage_ = Stage::kWanted;
  }
  // Where the pool is full, whoever waits for it works it out.
  pool_->Submit([self = shared_from_this()] { self->WorkOutForced(); });
}

absl::Status GuideState::Force(std::vector<TokenId>* run, bool* whole) {
  std::array<char, GuideVocabulary::kForcedWindow> bytes;
  for (*whole = true; run->size() < kMostForced;) {
    size_t count = 0;
    BatonBuffer error;
    const BatonStatus status = baton_guide_forced(
        state_.get(), reinterpret_cast<uint8_t*>(bytes.data()), bytes.size(), &count, &error);
    if (status == BATON_INVALID) return TooComplex(kind_, rust::TakeString(error));
    if (status != BATON_OK) return rust::TakeError(status, error);
    const auto id = vocabulary_->FirstTokenOf({bytes.data(), count}, last_);
    if (!id) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(Feed({&*id, 1}));
    run->push_back(*id);
  }
  *whole = false;
  return absl::OkStatus();
}

void GuideState::WorkOutForced() {
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kWanted) return;
    stage_ = Stage::kForcing;
  }
  std::vector<TokenId> run;
  bool whole = true;
  const auto begin = std::chrono::steady_clock::now();
  absl::Status failure = Force(&run, &whole);
  const base::Duration took = std::chrono::steady_clock::now() - begin;
  {
    base::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(failure);
    forced_ = std::move(run);
    forced_taken_ = 0;
    forced_whole_ = whole || !status_.ok();
    slow_ = took > kSlow;
    stage_ = Stage::kForced;
    changed_.NotifyAll();
    if (!forced_whole_) return;
  }
  pool_->Submit([self = shared_from_this()] { self->WorkOutMask(); });
}

void GuideState::WorkOutMask() {
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kForced || !forced_whole_) return;
    stage_ = Stage::kMasking;
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
  slow_ |= took > kSlow;
  stage_ = Stage::kMasked;
  changed_.NotifyAll();
}

ForcedRun GuideState::Forced() {
  {
    base::MutexLock lock(&mutex_);
    if (stage_ == Stage::kNothing) stage_ = Stage::kWanted;
  }
  WorkOutForced();
  base::MutexLock lock(&mutex_);
  Await(Stage::kForcing);
  return {.ids = std::span<const TokenId>(forced_).subspan(forced_taken_), .whole = forced_whole_};
}

std::span<const uint32_t> GuideState::Mask() {
  BATON_CHECK(Forced().whole) << "a mask in the middle of what is forced";
  WorkOutMask();
  base::MutexLock lock(&mutex_);
  Await(Stage::kMasking);
  return words_;
}

bool GuideState::holds_up() const {
  base::MutexLock lock(&mutex_);
  const bool ready = forced_whole_ ? stage_ == Stage::kMasked : stage_ == Stage::kForced;
  return slow_ && !ready;
}

bool GuideState::only_end() const {
  base::MutexLock lock(&mutex_);
  return only_end_ && !comes_forced();
}

absl::Status GuideState::status() const {
  base::MutexLock lock(&mutex_);
  return comes_forced() ? absl::OkStatus() : status_;
}

}  // namespace baton
