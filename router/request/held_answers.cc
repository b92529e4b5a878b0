#include "router/request/held_answers.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton {
namespace {

// Messages of this size stay far below the 4 MiB that clients take by default.
constexpr size_t kHeldMessageBytes = size_t{64} << 10;

void Renumber(int32_t index, HeldAnswer* answer) {
  for (v1::Delta& delta : answer->deltas) delta.set_index(index);
  answer->final.set_index(index);
}

}  // namespace

void HeldAnswers::Append(v1::Delta delta) {
  Held& held = answers_[static_cast<size_t>(delta.index())];
  const size_t bytes = delta.ByteSizeLong();
  std::vector<v1::Delta>& deltas = held.answer.deltas;
  if (deltas.empty() || held.last_bytes + bytes > kHeldMessageBytes) {
    deltas.push_back(std::move(delta));
    held.last_bytes = bytes;
  } else {
    MergeDelta(&deltas.back(), &delta);
    held.last_bytes += bytes;
  }
}

void HeldAnswers::End(v1::Final final) {
  Held& held = answers_[static_cast<size_t>(final.index())];
  held.answer.final = std::move(final);
}

std::vector<HeldAnswer> HeldAnswers::TakeBest(int32_t best) {
  std::vector<size_t> order(answers_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto score = [this](size_t index) { return answers_[index].answer.final.score(); };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return score(a) > score(b); });
  order.resize(std::min(order.size(), static_cast<size_t>(best)));
  std::vector<HeldAnswer> taken;
  for (const size_t index : order) {
    taken.push_back(std::move(answers_[index].answer));
    Renumber(static_cast<int32_t>(taken.size()) - 1, &taken.back());
  }
  return taken;
}

}  // namespace baton
