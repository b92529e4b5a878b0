#include "common/guide/guide_state.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace baton {
namespace {

// Forced ids that are worked out at once, each of which takes some 10 µs.
constexpr size_t kMostForced = 64;

absl::Status TooComplex(GuideKind kind, std::string_view why) {
  const std::string field(GuideFieldName(kind));
  return InvalidArgument(Reason::kLimitExceeded, field,
                         absl::StrCat(field, " became too complex in the course of the answer: ",
                                      std::string(why), "; make it simpler"));
}

absl::Status TooDear(GuideKind kind, base::Duration took) {
  return TooComplex(
      kind, absl::StrCat("the last work on what may come next took ", base::Milliseconds(took),
                         " ms of a processor, and the answer more than it may, which is ",
                         base::Milliseconds(GuideBudget::kAtOnce), " ms at once and ",
                         base::Milliseconds(GuideBudget::kEachToken),
                         " ms for each token; a text should follow the guide in one way only"));
}

}  // namespace

GuideState::GuideState(GuideKind kind, CompiledGuide::State state,
                       std::shared_ptr<const GuideVocabulary> vocabulary, TaskPool* pool,
                       GuideWatch* watch)
    : kind_(kind),
      vocabulary_(std::move(vocabulary)),
      pool_(pool),
      watch_(watch),
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

// They may take what they took when they were drawn.
absl::Status GuideState::TakeAll(std::span<const TokenId> tokens) {
  base::MutexLock lock(&mutex_);
  BATON_CHECK(stage_ == Stage::kNothing) << "the answer has begun";
  const base::Duration most =
      GuideBudget::kAtOnce + static_cast<int64_t>(tokens.size()) * GuideBudget::kEachToken;
  absl::Status failure;
  const base::Duration took = watch_->Run(state_.get(), most, [&] { failure = Feed(tokens); });
  return took >= most ? TooDear(kind_, took) : failure;
}

// The grammar takes it where what comes behind it is worked out: that may take long, and who
// commits a step does so for everybody in it.
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
  untaken_.push_back(token);
}

void GuideState::Submit(void (GuideState::*work)()) {
  TaskPool::Kind kind;
  {
    base::MutexLock lock(&mutex_);
    kind = budget_.slow() ? TaskPool::Kind::kSlow : TaskPool::Kind::kQuick;
  }
  // Where the pool is full, whoever waits for it works it out.
  pool_->Submit([self = shared_from_this(), work] { ((*self).*work)(); }, kind);
}

void GuideState::Prepare() {
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kNothing) return;
    stage_ = Stage::kWanted;
  }
  Submit(&GuideState::WorkOutForced);
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

absl::Status GuideState::FeedAndForce(std::span<const TokenId> tokens, std::vector<TokenId>* run,
                                      bool* whole) {
  BATON_RETURN_IF_ERROR(Feed(tokens));
  return Force(run, whole);
}

void GuideState::Book(base::Duration took, absl::Status failure) {
  budget_.Spend(took);
  if (!status_.ok()) return;
  status_ = budget_.spent() ? TooDear(kind_, took) : std::move(failure);
}

void GuideState::WorkOutForced() {
  std::vector<TokenId> tokens;
  base::Duration most;
  absl::Status failure;
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kWanted) return;
    stage_ = Stage::kForcing;
    tokens.swap(untaken_);
    budget_.Take(tokens.size());
    most = budget_.left();
    failure = status_;
  }
  std::vector<TokenId> run;
  bool whole = true;
  base::Duration took{};
  if (failure.ok()) {
    took = watch_->Run(state_.get(), most, [&] { failure = FeedAndForce(tokens, &run, &whole); });
  }
  {
    base::MutexLock lock(&mutex_);
    Book(took, std::move(failure));
    budget_.Take(run.size());
    forced_ = std::move(run);
    forced_taken_ = 0;
    forced_whole_ = whole || !status_.ok();
    stage_ = Stage::kForced;
    changed_.NotifyAll();
    if (!forced_whole_) return;
  }
  Submit(&GuideState::WorkOutMask);
}

absl::Status GuideState::WriteMask(bool* only_end) {
  uint8_t none_else = 0;
  BatonBuffer error;
  const BatonStatus status =
      baton_guide_mask(state_.get(), words_.data(), words_.size(), &none_else, &error);
  if (status == BATON_INVALID) return TooComplex(kind_, rust::TakeString(error));
  if (status != BATON_OK) return rust::TakeError(status, error);
  *only_end = none_else != 0;
  return absl::OkStatus();
}

void GuideState::WorkOutMask() {
  base::Duration most;
  absl::Status failure;
  {
    base::MutexLock lock(&mutex_);
    if (stage_ != Stage::kForced || !forced_whole_) return;
    stage_ = Stage::kMasking;
    most = budget_.left();
    failure = status_;
  }
  bool only_end = false;
  base::Duration took{};
  if (failure.ok()) {
    took = watch_->Run(state_.get(), most, [&] { failure = WriteMask(&only_end); });
  }
  base::MutexLock lock(&mutex_);
  Book(took, std::move(failure));
  if (!status_.ok()) words_ = vocabulary_->eos_mask();
  only_end_ = status_.ok() && only_end;
  stage_ = Stage::kMasked;
  changed_.NotifyAll();
}

ForcedRun GuideState::Forced() {
  const auto begin = std::chrono::steady_clock::now();
  {
    base::MutexLock lock(&mutex_);
    if (stage_ == Stage::kNothing) stage_ = Stage::kWanted;
  }
  WorkOutForced();
  base::MutexLock lock(&mutex_);
  Await(Stage::kForcing);
  took_long_ = std::chrono::steady_clock::now() - begin > GuideBudget::kFelt;
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
  return budget_.slow() && !ready;
}

bool GuideState::knows_forced() const {
  base::MutexLock lock(&mutex_);
  return stage_ >= Stage::kForced;
}

bool GuideState::took_long() const {
  base::MutexLock lock(&mutex_);
  return took_long_;
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
