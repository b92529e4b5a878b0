#include "router/placement/request_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{1000};
// With more requests than this that were tried and must wait for decode workers, those behind wait
// too, so that a pass stays short: those of the same tenant, and everybody. Each of them seemed to
// fit a worker with a place that nobody ahead could use, so that only clusters of many sizes and
// versions come near to it.
constexpr size_t kMaxAheadOfTenant = 16;
constexpr size_t kMaxAhead = 64;
// With as many that wait for a prefill worker, it is no longer looked up for each one behind
// whether it needs one. Then only those may still go that certainly need none, and those not half
// as long as any of these: how long a prompt is says the most about where it is computed.
constexpr size_t kMaxForPrefill = 256;
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
  const Turn turn(waiting.arrived, waiting.id);
  place_of_.emplace(waiting.id, std::pair(&line, turn));
  const auto added = line.waiting.emplace(turn, Queued{.waiting = std::move(waiting)}).first;
  Count(&line, &added->second, true);
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

void RequestQueue::Count(Line* line, Queued* queued, bool in) {
  const Waiting& waiting = queued->waiting;
  const RoutingNeed& need = waiting.need;
  const int32_t sign = in ? 1 : -1;
  const int32_t new_ones = waiting.is_new ? sign * waiting.answers : 0;
  new_waiting_ += new_ones;
  line->new_waiting += new_ones;
  tokens_ += sign * need.tokens;
  line->tokens += sign * need.tokens;
  line->sizes.Set(&queued->size, in ? Tally::Counted(need.longest_sequence()) : std::nullopt);
  // Who goes beside another answer needs no prefill worker.
  const int64_t prompt = need.beside ? 0 : need.tokens;
  line->prompts.Set(&queued->prompt, in ? Tally::Counted(prompt) : std::nullopt);
  const bool particular = need.beam_tokens > 0 || !need.unfit.empty() || !need.fingerprint.empty();
  if (particular) line->particular += sign;
}

void RequestQueue::SetAbsent(Line* line, Queued* queued, std::optional<base::Instant> since) {
  line->absent += (since ? 1 : 0) - (queued->absent_since ? 1 : 0);
  queued->absent_since = since;
}

std::map<RequestQueue::Turn, RequestQueue::Queued>::iterator RequestQueue::Erase(
    Line* line, std::map<Turn, Queued>::iterator at) {
  Count(line, &at->second, false);
  SetAbsent(line, &at->second, std::nullopt);
  place_of_.erase(at->second.waiting.id);
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
  Walk walk{.now = now, .passage = passage};
  std::vector<Line*> seen;  // whole
  while (!walk.over && !ready_.empty()) {
    Line* const line = std::get<Line*>(*ready_.begin());
    if (line->pass != passes_) {
      line->pass = passes_;
      line->next = line->waiting.begin();
      line->held_up = 0;
    }
    if (IsDone(*line, walk)) {
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

bool RequestQueue::IsDone(const Line& line, const Walk& walk) const {
  if (line.next == line.waiting.end() || line.held_up > kMaxAheadOfTenant) return true;
  // The length of a prompt does not tell of which model it wants a prefill worker.
  const bool any_short = line.prompts.smallest() < walk.too_long || !walk.prefill_model.empty();
  const bool any_may_go = line.sizes.smallest() <= walk.room.context && any_short;
  if (any_may_go) return false;
  // Those for whom no worker is there must be found, and who has one again.
  return line.absent == 0 && line.particular == 0 &&
         !walk.passage.absent({.peak_tokens = line.sizes.largest()});
}

void RequestQueue::TryNext(Line* line, Walk* walk) {
  Queued& queued = line->next->second;
  const RoutingNeed& need = queued.waiting.need;
  const std::optional<Try> foreseen = walk->Foreseen(need);
  Try outcome = foreseen.value_or(Try::kAbsent);
  if (!foreseen) {
    outcome = walk->passage.place(queued.waiting, walk->ahead());
  } else if (walk->passage.absent(need)) {
    outcome = Try::kAbsent;
  }
  if (outcome == Try::kPlaced) {
    Charge(line, queued.waiting);
    line->next = Erase(line, line->next);
    return;
  }
  if (outcome == Try::kAbsent) {
    if (!queued.absent_since) SetAbsent(line, &queued, walk->now);
    const bool given_up = walk->passage.hopeless(queued.waiting, *queued.absent_since);
    line->next = given_up ? Erase(line, line->next) : std::next(line->next);
    return;
  }
  SetAbsent(line, &queued, std::nullopt);
  if (outcome == Try::kNoPrefill) walk->WaitsForPrefill(need);
  if (outcome == Try::kNoDecode && !foreseen) {
    walk->WaitsForDecode(need);
    ++line->held_up;
  }
  ++line->next;
}

std::optional<RequestQueue::Try> RequestQueue::Walk::Foreseen(const RoutingNeed& need) const {
  const bool too_large = need.longest_sequence() > room.context || need.peak_tokens > room.pool;
  const auto wants_all = [&](const RoutingNeed* other) { return WantsAllThat(*other, need); };
  if (too_large || std::ranges::any_of(needs, wants_all)) return Try::kNoDecode;
  if (need.beside || !WantsSamePrefill(need)) return std::nullopt;
  if (need.tokens >= too_long || passage.needs_prefill(need)) return Try::kNoPrefill;
  return std::nullopt;
}

void RequestQueue::Walk::WaitsForDecode(const RoutingNeed& need) {
  std::erase_if(needs, [&](const RoutingNeed* other) { return WantsAllThat(need, *other); });
  needs.push_back(&need);
  if (++held_up > kMaxAhead) over = true;
  LookForRoom();
}

void RequestQueue::Walk::WaitsForPrefill(const RoutingNeed& need) {
  const bool another_model = !WantsSamePrefill(need);
  if (!another_model && need.tokens >= too_long) return;
  if (another_model) prefill_model = for_prefill == 0 ? need.fingerprint : std::string_view();
  shortest = std::min(shortest, need.tokens);
  ++for_prefill;
  if (another_model) LookForRoom();
  if (for_prefill >= kMaxForPrefill) too_long = std::max(passage.local_below, (shortest + 1) / 2);
}

void RequestQueue::Walk::LookForRoom() {
  room = passage.room(ahead());
  if (room.context == 0) over = true;
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
