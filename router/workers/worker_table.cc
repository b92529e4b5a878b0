#include "router/workers/worker_table.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

// Hand-offs after which it is said how long they take.
constexpr int64_t kEnoughHandoffs = 8;
// The share of prompt tokens of a worker that names none.
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;

// What is foreseen of some is taken to hold for all that the worker has, and for what was placed
// there since: each is expected to draw as many tokens as the mean of those.
double KvRemaining(const WorkerLoad& load, int64_t tokens_placed) {
  if (load.foreseen <= 0) return -1;
  const double each = load.expected_tokens / load.foreseen;
  const double part = static_cast<double>(load.running + load.waiting) / load.foreseen;
  return load.expected_kv_tokens * std::max(1.0, part) + static_cast<double>(tokens_placed) * each;
}

}  // namespace

WorkerTable::Entry* WorkerTable::At(WorkerKind kind, const std::string& address) {
  const auto found = Of(kind).by_address.find(address);
  return found == Of(kind).by_address.end() ? nullptr : found->second.get();
}

const WorkerTable::Entry* WorkerTable::At(WorkerKind kind, const std::string& address) const {
  const auto found = Of(kind).by_address.find(address);
  return found == Of(kind).by_address.end() ? nullptr : found->second.get();
}

WorkerTable::Entry* WorkerTable::OfProcess(WorkerKind kind, const WorkerKey& key) {
  Entry* const entry = At(kind, key.address);
  const bool same =
      entry != nullptr && entry->known && entry->view.facts.incarnation == key.incarnation;
  return same ? entry : nullptr;
}

const WorkerTable::Entry* WorkerTable::OfProcess(WorkerKind kind, const WorkerKey& key) const {
  const Entry* const entry = At(kind, key.address);
  const bool same =
      entry != nullptr && entry->known && entry->view.facts.incarnation == key.incarnation;
  return same ? entry : nullptr;
}

void WorkerTable::ShowHeld(WorkerKind kind, Entry* entry) {
  entry->held = &Of(kind).held[entry->view.key()];
  entry->held->entry = entry;
}

void WorkerTable::HideHeld(WorkerKind kind, Entry* entry) {
  if (entry->held == nullptr) return;
  entry->held->entry = nullptr;
  if (entry->held->attempts == 0) Of(kind).held.erase(entry->view.key());
  entry->held = nullptr;
}

WorkerTable::Held& WorkerTable::GivenBack(WorkerKind kind, const WorkerKey& key) {
  const auto found = Of(kind).held.find(key);
  BATON_CHECK(found != Of(kind).held.end() && found->second.attempts > 0)
      << "an attempt gives back what none holds at " << WorkerKindName(kind) << " worker "
      << key.address << ", incarnation " << key.incarnation;
  return found->second;
}

void WorkerTable::Add(WorkerKind kind, const std::string& address,
                      std::shared_ptr<WorkerLink> link) {
  auto& slot = Of(kind).by_address[address];
  if (slot != nullptr) return;
  slot = std::make_unique<Entry>();
  slot->view.link = std::move(link);
  slot->view.address = address;
  Of(kind).entry_of[&slot->view] = slot.get();
}

void WorkerTable::Remove(WorkerKind kind, const std::string& address) {
  Entry* const entry = At(kind, address);
  if (entry == nullptr) return;
  entry->known = entry->listed = false;
  SetFresh(&Of(kind), entry, base::Instant());
  warm_pairs_.Set(&entry->view, {});
  Refresh(kind, entry);
  HideHeld(kind, entry);
  Of(kind).entry_of.erase(&entry->view);
  Of(kind).by_address.erase(address);
}

void WorkerTable::SetListed(WorkerKind kind, const std::string& address, bool listed) {
  Entry* const entry = At(kind, address);
  if (entry == nullptr || entry->listed == listed) return;
  entry->listed = listed;
  Refresh(kind, entry);
}

void WorkerTable::Learn(WorkerKind kind, const std::string& address, WorkerFacts facts,
                        bool accepted) {
  Entry* const entry = At(kind, address);
  if (entry == nullptr) return;
  Lose(kind, address);  // what was before it
  HideHeld(kind, entry);
  entry->view.facts = std::move(facts);
  ShowHeld(kind, entry);
  entry->known = true;
  entry->accepted = accepted;
  Refresh(kind, entry);
}

void WorkerTable::Update(WorkerKind kind, const std::string& address, WorkerLoad load,
                         base::Instant now) {
  Entry* const entry = At(kind, address);
  if (entry == nullptr || !entry->known) return;
  if (!load.share) {
    load.share = {.places = entry->held->places + load.prefill_places_free,
                  .prompt_tokens = kUnbounded};
  }
  entry->load = std::move(load);
  entry->suspect = false;
  entry->tokens_queued = 0;
  entry->tokens_placed = 0;
  entry->sequences_placed = 0;
  if (entry->load.queued_prompt_tokens == 0) entry->line = 0;
  entry->view.blocks_total = entry->load.blocks_total;
  warm_pairs_.Set(&entry->view, std::exchange(entry->load.warm_pairs, {}));
  SetFresh(&Of(kind), entry, now + rules_.status_fresh);
  if (entry->accepted) {
    entry->seen_context = entry->view.context();
    entry->seen_pool = entry->view.pool_tokens();
  }
  Refresh(kind, entry);
}

void WorkerTable::Lose(WorkerKind kind, const std::string& address) {
  Entry* const entry = At(kind, address);
  if (entry == nullptr) return;
  entry->known = entry->accepted = entry->suspect = false;
  entry->load = WorkerLoad();
  warm_pairs_.Set(&entry->view, {});
  entry->view.full_until = base::Instant();
  SetFresh(&Of(kind), entry, base::Instant());
  entry->tokens_queued = entry->tokens_placed = entry->sequences_placed = entry->line = 0;
  Refresh(kind, entry);
}

void WorkerTable::Take(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim) {
  Held& held = Of(kind).held[key];
  ++held.attempts;
  ++held.places;
  if (claim.computes) held.prompt_tokens += claim.new_tokens();
  held.growth_tokens += claim.growth_tokens;
  Entry* const entry = OfProcess(kind, key);
  if (entry == nullptr) return;
  if (claim.computes) {
    entry->tokens_queued += claim.new_tokens();
    ++entry->line;
  }
  entry->tokens_placed += claim.new_tokens();
  ++entry->sequences_placed;
  Refresh(kind, entry);
}

void WorkerTable::PromptDone(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim) {
  if (!claim.computes) return;
  Held& held = GivenBack(kind, key);
  held.prompt_tokens -= claim.new_tokens();
  if (!claim.decodes) --held.places;
  if (held.entry != nullptr) Refresh(kind, held.entry);
}

void WorkerTable::Return(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim) {
  Held& held = GivenBack(kind, key);
  --held.attempts;
  if (claim.decodes) --held.places;
  held.growth_tokens -= claim.growth_tokens;
  if (held.entry != nullptr) {
    Refresh(kind, held.entry);
  } else if (held.attempts == 0) {
    Of(kind).held.erase(key);
  }
}

base::Instant WorkerTable::MarkFull(const WorkerKey& key, base::Instant now) {
  for (const WorkerKind kind : kWorkerKinds) {
    if (Entry* const entry = OfProcess(kind, key)) {
      entry->view.full_until = now + rules_.full_backoff;
    }
  }
  return now + rules_.full_backoff;
}

void WorkerTable::MarkSuspect(const WorkerKey& key) {
  for (const WorkerKind kind : kWorkerKinds) {
    if (Entry* const entry = OfProcess(kind, key)) {
      entry->suspect = true;
      Refresh(kind, entry);
    }
  }
}

std::vector<const WorkerView*> WorkerTable::Healthy(WorkerKind kind, base::Instant now) const {
  std::vector<const WorkerView*> healthy;
  std::set<uint64_t> seen;  // one process may be reached at two addresses
  for (const auto& [address, entry] : Of(kind).by_address) {
    if (!IsHealthy(kind, address, now)) continue;
    if (seen.insert(entry->view.facts.incarnation).second) healthy.push_back(&entry->view);
  }
  return healthy;
}

bool WorkerTable::AnyHealthy(WorkerKind kind, base::Instant now) {
  Advance(now);
  return !Of(kind).healthy_context.empty();
}

bool WorkerTable::IsHealthy(WorkerKind kind, const std::string& address, base::Instant now) const {
  const Entry* const entry = At(kind, address);
  return entry != nullptr && entry->known && entry->accepted && entry->listed &&
         entry->load.takes_new && now <= entry->view.fresh_until;
}

bool WorkerTable::TakesOtherRole(WorkerKind kind, const std::string& address,
                                 base::Instant now) const {
  const Entry* const entry = At(kind, address);
  return entry != nullptr && entry->known && entry->accepted && entry->listed &&
         entry->load.other_role && now <= entry->view.fresh_until;
}

bool WorkerTable::IsAlive(const WorkerKey& key) const {
  return std::ranges::any_of(kWorkerKinds,
                             [&](WorkerKind kind) { return OfProcess(kind, key) != nullptr; });
}

bool WorkerTable::IsFresh(const WorkerKey& key, base::Instant now) const {
  return std::ranges::any_of(kWorkerKinds, [&](WorkerKind kind) {
    const Entry* const entry = OfProcess(kind, key);
    return entry != nullptr && now <= entry->view.fresh_until;
  });
}

WorkerLoad WorkerTable::LoadOf(WorkerKind kind, const std::string& address) const {
  const Entry* const entry = At(kind, address);
  return entry == nullptr ? WorkerLoad{} : entry->load;
}

const WorkerView* WorkerTable::Find(WorkerKind kind, const WorkerKey& key) const {
  const Entry* const entry = OfProcess(kind, key);
  return entry == nullptr ? nullptr : &entry->view;
}

std::vector<KvShape> WorkerTable::ShapesOf(WorkerKind kind, const std::string& fingerprint) const {
  std::vector<KvShape> shapes;  // few, of however many workers
  for (const auto& [_, entry] : Of(kind).by_address) {
    const WorkerFacts& facts = entry->view.facts;
    const bool counts = entry->known && entry->accepted && entry->listed;
    if (!counts || facts.fingerprint != fingerprint) continue;
    if (std::ranges::find(shapes, facts.layout) == shapes.end()) shapes.push_back(facts.layout);
  }
  return shapes;
}

int64_t WorkerTable::ServingContext(WorkerKind kind, const std::string& fingerprint) const {
  const auto& models = Of(kind).models;
  if (!fingerprint.empty()) {
    const auto found = models.find(fingerprint);
    return found == models.end() ? 0 : found->second.largest();
  }
  int64_t most = 0;
  for (const auto& [model, contexts] : models) most = std::max(most, contexts.largest());
  return most;
}

int64_t WorkerTable::HealthyContext(base::Instant now) {
  Advance(now);
  return Of(WorkerKind::kDecode).healthy_context.largest();
}

int64_t WorkerTable::HealthyPool(base::Instant now) {
  Advance(now);
  return Of(WorkerKind::kDecode).healthy_pool.largest();
}

int64_t WorkerTable::BlockTokens(base::Instant now) {
  Advance(now);
  return Of(WorkerKind::kDecode).healthy_block.smallest();
}

WorkerDemand WorkerTable::DemandOf(WorkerKind kind, const std::string& address, int64_t requests,
                                   int64_t tokens) const {
  const Entry* const entry = At(kind, address);
  if (entry == nullptr) return {};
  const int64_t most = std::numeric_limits<int32_t>::max();
  const Held held = entry->held == nullptr ? Held() : *entry->held;
  return {.places_held = held.places,
          .places_wanted = static_cast<int32_t>(std::min(most, held.places + requests)),
          .prompt_tokens_held = held.prompt_tokens,
          .prompt_tokens_wanted = held.prompt_tokens + tokens};
}

void WorkerTable::Refresh(WorkerKind kind, Entry* entry) {
  WorkerView& view = entry->view;
  const WorkerShare share = entry->load.share.value_or(WorkerShare());
  const Held held = entry->held == nullptr ? Held() : *entry->held;
  view.places_free = share.places - held.places;
  view.prompt_tokens_free = share.prompt_tokens - held.prompt_tokens;
  view.queued_tokens = entry->load.queued_prompt_tokens + entry->tokens_queued;
  view.sequences = int64_t{entry->load.running} + entry->load.waiting + entry->sequences_placed;
  view.line = entry->line;
  view.prompt_times = entry->load.prompt_times;
  const int64_t block = std::max(1, view.facts.layout.block_size);
  // A running request is taken to be half-way through what it may still generate.
  const int64_t growth = std::max<int64_t>(0, held.growth_tokens / 2) + entry->tokens_placed;
  view.blocks_expected = entry->load.blocks_in_use + (growth + block - 1) / block;
  view.kv_remaining = KvRemaining(entry->load, entry->tokens_placed);
  const bool healthy =
      entry->known && entry->accepted && entry->listed && entry->load.takes_new && entry->fresh;
  const bool serves = view.serving = healthy && !entry->suspect;
  // Decode workers are open to requests that need no prompt computed there.
  const bool room =
      view.places_free >= 1 && (kind == WorkerKind::kDecode || view.prompt_tokens_free >= 1);
  Group* const group = &Of(kind);
  SetMember(group, &Group::serving, &Entry::serving_at, entry, serves);
  SetMember(group, &Group::open, &Entry::open_at, entry, serves && room);
  CountContexts(group, entry, healthy, serves);
}

void WorkerTable::CountContexts(Group* group, Entry* entry, bool healthy, bool serves) {
  const auto only_if = [](bool counts, int64_t value) {
    return counts ? Tally::Counted(value) : std::nullopt;
  };
  const int64_t context = entry->view.context();
  group->healthy_context.Set(&entry->healthy_context, only_if(healthy, context));
  group->healthy_pool.Set(&entry->healthy_pool, only_if(healthy, entry->view.pool_tokens()));
  group->healthy_block.Set(&entry->healthy_block,
                           only_if(healthy, std::max(1, entry->view.facts.layout.block_size)));
  group->known_context.Set(&entry->known_context, only_if(entry->listed, entry->seen_context));
  group->known_pool.Set(&entry->known_pool, only_if(entry->listed, entry->seen_pool));
  if (entry->serving_context == only_if(serves, context)) return;
  const auto model = group->models.try_emplace(entry->view.facts.fingerprint).first;
  model->second.Set(&entry->serving_context, only_if(serves, context));
  if (model->second.empty()) group->models.erase(model);
}

void WorkerTable::SetFresh(Group* group, Entry* entry, base::Instant until) {
  if (entry->fresh) group->fresh.erase({entry->view.fresh_until, entry});
  entry->fresh = until != base::Instant();
  entry->view.fresh_until = until;
  if (entry->fresh) group->fresh.emplace(until, entry);
}

void WorkerTable::NoteHandoff(int64_t tokens, base::Duration took) {
  handoffs_.Add(static_cast<double>(tokens), base::Seconds(took));
}

HandoffTimes WorkerTable::handoff_times() const {
  return {.known = handoffs_.points() >= kEnoughHandoffs,
          .fixed_s = handoffs_.at_zero(),
          .token_s = handoffs_.slope()};
}

void WorkerTable::Advance(base::Instant now) {
  for (const WorkerKind kind : kWorkerKinds) {
    auto& fresh = Of(kind).fresh;
    while (!fresh.empty() && fresh.begin()->first < now) {
      Entry* const entry = fresh.begin()->second;
      fresh.erase(fresh.begin());
      entry->fresh = false;
      Refresh(kind, entry);
    }
  }
}

void WorkerTable::SetMember(Group* group, std::vector<const WorkerView*> Group::*list,
                            int32_t Entry::*position, Entry* entry, bool member) {
  std::vector<const WorkerView*>& views = group->*list;
  int32_t& at = entry->*position;
  if (member == (at >= 0)) return;
  if (member) {
    at = static_cast<int32_t>(views.size());
    views.push_back(&entry->view);
    return;
  }
  // The last one takes the gap.
  views[static_cast<size_t>(at)] = views.back();
  group->entry_of[views.back()]->*position = at;
  views.pop_back();
  at = -1;
}

}  // namespace baton
