#include "router/workers/target_resolver.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "router/workers/address_resolver.h"

namespace baton {

struct TargetResolver::State {
  struct Entry {
    Answer answer;
    bool literal = false;
    bool under_way = false;
    base::Instant since{};  // of the lookup that is under way
  };
  explicit State(Lookup how) : lookup(std::move(how)) {}

  const Lookup lookup;
  base::Mutex mutex;
  base::CondVar changed;
  std::map<std::string, Entry> entries ABSL_GUARDED_BY(mutex);
  bool news ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
};

TargetResolver::TargetResolver(const std::vector<std::string>& targets, base::Duration every,
                               const base::Clock* clock, const Lookup& lookup)
    : every_(every),
      clock_(clock),
      state_(std::make_shared<State>(lookup)),
      next_(clock->Now() + every) {
  base::MutexLock lock(&state_->mutex);
  for (const std::string& target : targets) {
    State::Entry& entry = state_->entries[target];
    if (entry.under_way || entry.literal) continue;  // listed twice
    if (const auto literal = ResolveLiteral(target)) {
      entry.literal = true;
      entry.answer.status = literal->status();
      if (literal->ok()) entry.answer.addresses = **literal;
      continue;
    }
    entry.under_way = true;
    entry.since = clock_->Now();
    Begin(state_, target);
  }
}

// `target` is marked as under way.
void TargetResolver::Begin(const std::shared_ptr<State>& state, const std::string& target) {
  std::thread([state, target] {
    auto addresses = state->lookup(target);
    base::MutexLock lock(&state->mutex);
    State::Entry& entry = state->entries[target];
    entry.under_way = false;
    entry.answer.status = addresses.status();
    if (addresses.ok()) entry.answer.addresses = *std::move(addresses);
    state->news = true;
    state->changed.NotifyAll();
  }).detach();
}

TargetResolver::Answer TargetResolver::Latest(const std::string& target) const {
  base::MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(target);
  if (found == state_->entries.end()) return {};
  const State::Entry& entry = found->second;
  Answer answer = entry.answer;
  if (entry.under_way && clock_->Now() - entry.since >= every_) {
    answer.status = absl::DeadlineExceededError(
        absl::StrCat("cannot resolve '", target, "': the name server has not answered for ",
                     base::Seconds(every_), " s"));
  }
  return answer;
}

bool TargetResolver::Wait() {
  base::MutexLock lock(&state_->mutex);
  while (!state_->stopping && !state_->news && clock_->Now() < next_) {
    state_->changed.WaitUntil(&state_->mutex, next_);
  }
  if (state_->stopping) return false;
  state_->news = false;
  const base::Instant now = clock_->Now();
  if (now < next_) return true;
  next_ = now + every_;
  for (auto& [target, entry] : state_->entries) {
    if (entry.literal || entry.under_way) continue;
    entry.under_way = true;
    entry.since = now;
    Begin(state_, target);
  }
  return true;
}

void TargetResolver::Stop() {
  base::MutexLock lock(&state_->mutex);
  state_->stopping = true;
  state_->changed.NotifyAll();
}

}  // namespace baton
