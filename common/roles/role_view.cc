#include "common/roles/role_view.h"

#include <algorithm>

namespace baton {
namespace {

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

std::string_view WorkerRoleName(WorkerRole role) {
  return role == WorkerRole::kPrefill ? "prefill" : "decode";
}

RoleSignals SignalsOf(std::span<const ClusterView> views) {
  if (views.empty()) return {};
  double waiting = 0;
  for (const ClusterView& view : views) {
    waiting += static_cast<double>(view.waiting_prompt_tokens);
  }
  const ClusterView& most = *std::ranges::max_element(views, {}, [](const ClusterView& view) {
    return view.prefill.workers + view.decode.workers;
  });
  const double prefills = std::max(1, most.prefill.workers);
  waiting += static_cast<double>(most.prefill.queued_prompt_tokens);
  return {.prompt_wait_s = waiting * most.prompt_token_s / prefills,
          .prefill_load = most.prompt_load / prefills,
          .decode_fill = Share(most.decode.fill, most.decode.workers)};
}

double FillOf(const DecodeWork& work) {
  const double growth = work.expected_tokens / 2 / std::max(1, work.block_size);
  const double steps = work.sequences > 0 ? Share(work.step_s, work.target_s) : 0;
  return std::max({Share(work.sequences, work.seats),
                   Share(work.blocks_used + growth, work.blocks_total), steps});
}

}  // namespace baton
