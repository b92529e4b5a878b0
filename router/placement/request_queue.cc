#include "router/placement/request_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{1000};
// With more requests than this that each wait for workers of their own, those behind wait too, so
// that a pass stays short: those of the same tenant, and everybody.
constexpr size_t kMaxAheadOfTenant = 16;
constexpr size_t kMaxAhead = 64;
// Tenants with nothing here whose debt is remembered.
constexpr size_t kMaxIdle = 1024;

absl::Status QueueFull(const std::string& tenant, int32_t have, int32_t limit,
                       const std::string& what) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kQueueFull,
       .values = {{"tenant", tenant}, {"have", absl::StrCat(have)}, {"limit", absl::StrCat(limit)}},
       .retry_after = kRetryAfter},
      absl::StrCat(have, " requests ", what, " and the limit is ", limit, "; try again later"));
}

}  // namespace

absl::Status RequestQueue::CheckBounds(const Waiting& waiting) const {
  if (!waiting.is_new) return absl::OkStatus();
  const auto line = lines_.find(waiting.tenant);
  const int32_t mine = line == lines_.end() ? 0 : line->second.new_waiting;
  const int32_t most = rules_.Of(waiting.tenant).max_queued;
  if (most > 0 && mine + waiting.answers > most) {
    return QueueFull(waiting.tenant, mine, most,
                     absl::StrCat("of tenant '", waiting.tenant, "' wait already"));
  }
  if (new_waiting_ + waiting.answers > max_new_) {
    return QueueFull(waiting.tenant, new_waiting_, max_new_, "wait already");
  }
  return absl::OkStatus();
}

RequestQueue::Line& RequestQueue::LineOf(const std::string& tenant) {
  const auto found = lines_.find(tenant);
  if (found != lines_.end()) return found->second;
  return lines_.try_emplace(tenant, tenant, rules_.Of(tenant), ++arrivals_).first->second;
}

absl::Status RequestQueue::Add(Waiting waiting) {
  BATON_RETURN_IF_ERROR(CheckBounds(waiting));
  Line& line = LineOf(waiting.tenant);
  if (line.waiting.empty()) line.counter.LiftTo(Level());
  new_waiting_ += waiting.is_new ? waiting.answers : 0;
  line.new_waiting += waiting.is_new ? waiting.answers : 0;
  tokens_ += waiting.need.tokens;
  line.tokens += waiting.need.tokens;
  const Turn turn(waiting.arrived, waiting.id);
  place_of_.emplace(waiting.id, std::pair(&line, turn));
  line.waiting.emplace(turn, Queued{.waiting = std::move(waiting), .absent_since = {}});
  Refresh(&line);
  return absl::OkStatus();
}

std::optional<RequestQueue::Displaced> RequestQueue::MakeRoomFor(const Waiting& waiting) {
  const int32_t lacking = new_waiting_ + waiting.answers - max_new_;
  if (!waiting.is_new || lacking <= 0) return std::nullopt;
  const auto mine = lines_.find(waiting.tenant);
  const int32_t have = mine == lines_.end() ? 0 : mine->second.new_waiting;
  const int32_t most = rules_.Of(waiting.tenant).max_queued;
  if (most > 0 && have + waiting.answers > most) return std::nullopt;
  const auto longest = std::ranges::max_element(
      lines_, {}, [](const auto& named) { return named.second.new_waiting; });
  Line* const line = &longest->second;
  if (line->new_waiting - lacking < have + waiting.answers) return std::nullopt;
  auto last = std::prev(line->waiting.end());
  while (!last->second.waiting.is_new) --last;
  Displaced displaced{.id = last->second.waiting.id, .tenant = line->tenant};
  Erase(line, last);
  return displaced;
}

bool RequestQueue::Remove(uint64_t id) {
  const auto found = place_of_.find(id);
  if (found == place_of_.end()) return false;
  const auto [line, turn] = found->second;
  Erase(line, line->waiting.find(turn));
  ForgetIdle();
  return true;
}

std::map<RequestQueue::Turn, RequestQueue::Queued>::iterator RequestQueue::Erase(
    Line* line, std::map<Turn, Queued>::iterator at) {
  const Waiting& waiting = at->second.waiting;
  new_waiting_ -= waiting.is_new ? waiting.answers : 0;
  line->new_waiting -= waiting.is_new ? waiting.answers : 0;
  tokens_ -= waiting.need.tokens;
  line->tokens -= waiting.need.tokens;
  place_of_.erase(waiting.id);
  const auto behind = line->waiting.erase(at);
  Refresh(line);
  return behind;
}

bool RequestQueue::Ended(uint64_t id, const TokensServed& served) {
  const auto found = placed_.find(id);
  if (found == placed_.end()) return false;
  Line* const line = found->second.line;
  // Its own bound is no credit either. What was charged too much is, so that comes second.
  const bool held_back = line->full() && !line->waiting.empty();
  if (held_back) line->counter.LiftTo(Level());
  line->counter.Settle(found->second.charge, served);
  --line->running;
  placed_.erase(found);
  Refresh(line);
  ForgetIdle();
  return held_back;
}

void RequestQueue::Charge(Line* line, const Waiting& waiting) {
  if (line->counter.served() >= level_) {
    level_ = line->counter.served();
    leader_ = line;
  }
  const TokenCharge charge =
      line->counter.Charge(waiting.prompt_tokens, waiting.need.peak_tokens - waiting.need.tokens);
  placed_.emplace(waiting.id, Placed{.line = line, .charge = charge});
  ++line->running;
}

void RequestQueue::Pass(base::Instant now, const Passage& passage) {
  ++passes_;
  Walk walk{.now = now, .passage = passage, .needs = {}};
  std::vector<Line*> seen;  // whole
  while (!walk.over && !ready_.empty()) {
    Line* const line = std::get<Line*>(*ready_.begin());
    if (line->pass != passes_) {
      line->pass = passes_;
      line->next = line->waiting.begin();
      line->held_up = 0;
    }
    if (line->next == line->waiting.end() || line->held_up > kMaxAheadOfTenant) {
      ready_.erase(ready_.begin());
      line->listed = nullptr;
      seen.push_back(line);
      continue;
    }
    TryNext(line, &walk);
  }
  for (Line* const line : seen) Refresh(line);
  ForgetIdle();
}

void RequestQueue::TryNext(Line* line, Walk* walk) {
  Queued& queued = line->next->second;
  const Try outcome = walk->passage.place(queued.waiting, walk->ahead());
  if (outcome == Try::kPlaced) {
    Charge(line, queued.waiting);
    line->next = Erase(line, line->next);
    return;
  }
  if (outcome == Try::kAbsent) {
    if (!queued.absent_since) queued.absent_since = walk->now;
    const bool given_up = walk->passage.hopeless(queued.waiting, *queued.absent_since);
    line->next = given_up ? Erase(line, line->next) : std::next(line->next);
    return;
  }
  queued.absent_since.reset();
  if (outcome == Try::kNoPrefill) walk->prefill = true;
  if (outcome == Try::kNoDecode) {
    walk->needs.push_back(&queued.waiting.need);
    ++line->held_up;
  }
  ++line->next;
  walk->over = walk->needs.size() > kMaxAhead || !walk->passage.more_places(walk->ahead());
}

void RequestQueue::Refresh(Line* line) {
  if (line->listed != nullptr) line->listed->erase(line->key);
  line->key = {line->counter.served(), line->since, line};
  const bool idle = line->waiting.empty();
  line->listed = nullptr;
  if (!idle && !line->full()) line->listed = &ready_;
  if (idle && line->running == 0) line->listed = &idle_;
  if (line->listed != nullptr) line->listed->insert(line->key);

  Wanted wanted{.requests = std::ssize(line->waiting), .tokens = line->tokens};
  if (const int64_t free = line->rule.max_running - line->running;
      line->rule.max_running > 0 && free < wanted.requests) {
    wanted.tokens = wanted.tokens / wanted.requests * free;
    wanted.requests = free;
  }
  wanted_.requests += wanted.requests - line->wanted.requests;
  wanted_.tokens += wanted.tokens - line->wanted.tokens;
  line->wanted = wanted;
}

double RequestQueue::Level() const {
  return leader_ == nullptr ? level_ : std::min(level_, leader_->counter.served());
}

void RequestQueue::ForgetIdle() {
  while (!idle_.empty()) {
    const auto [served, since, line] = *idle_.begin();
    const double level = Level();
    if (served > level && idle_.size() <= kMaxIdle) return;
    // Whoever comes anew begins at this level, so that being forgotten is no gain, unless others
    // get back later what raised it.
    if (line == leader_ || served > level) leader_ = nullptr;
    if (leader_ == nullptr) level_ = std::max(level, served);
    idle_.erase(idle_.begin());
    lines_.erase(line->tenant);
  }
}

std::optional<base::Instant> RequestQueue::oldest_new() const {
  std::optional<base::Instant> oldest;
  for (const auto& [tenant, line] : lines_) {
    const auto first = std::ranges::find_if(
        line.waiting, [](const auto& entry) { return entry.second.waiting.is_new; });
    if (first == line.waiting.end()) continue;
    const base::Instant arrived = first->second.waiting.arrived;
    if (!oldest || arrived < *oldest) oldest = arrived;
  }
  return oldest;
}

void RequestQueue::EachTenant(const std::function<void(const TenantLoad&)>& see) const {
  for (const auto& [tenant, line] : lines_) {
    see({.tenant = tenant, .waiting = std::ssize(line.waiting), .running = line.running});
  }
}

}  // namespace baton
