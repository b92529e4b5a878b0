#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

constexpr int64_t kMaxSwapSpace = int64_t{1} << 50;

}  // namespace

void BindSwap(FlagSet* set, SwapFlags* flags) {
  set->Add(
      With(SizeFlag("swap-space", &flags->space, {.min = 0, .max = kMaxSwapSpace}), "Preemption",
           "memory of the host, taken at start, that the KV cache of a preempted answer may be "
           "copied to where that costs less than computing it again; 0 = none. Prefill workers "
           "preempt nobody and have none"));
}

}  // namespace baton
