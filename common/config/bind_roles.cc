#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindRoles(FlagSet* set, RoleFlags* flags, const HandoffFlags* handoff) {
  const std::string group = "Roles";
  set->Add(Common(With(
      SwitchFlag("elastic", &flags->elastic), group,
      "the worker serves both roles, takes new requests in one at a time and changes it by itself, "
      "as routers tell it what waits; they list it as prefill and as decode worker")));
  set->Add(With(DurationFlag("elastic-cool-down", &flags->cool_down, std::chrono::seconds(1)),
                group,
                "after a change of its role, how long an elastic worker does not change it again"));
  set->Add(With(
      DurationFlag("elastic-tpot", &flags->step_target, std::chrono::milliseconds(1)), group,
      "what a token of an answer may take: decode workers that take four fifths of it count as "
      "full; 0 = no such target"));
  set->AddCheck([flags] {
    const RoleFlags defaults;
    const bool cools = flags->cool_down != defaults.cool_down;
    if (flags->elastic || (!cools && flags->step_target == defaults.step_target)) {
      return absl::OkStatus();
    }
    return UsageError(
        std::string(cools ? "--elastic-cool-down" : "--elastic-tpot") + " without --elastic",
        "it says how a worker changes its role", "--elastic");
  });
  set->AddCheck([flags, handoff] {
    const bool messages = handoff->transport == KvTransportFlag::kAuto ||
                          handoff->transport == KvTransportFlag::kGrpc;
    if (!flags->elastic || messages) return absl::OkStatus();
    return UsageError("--kv-transport " + WordOf(handoff->transport) + " with --elastic",
                      "pairs of devices lead one way, and elastic workers send both ways; their KV "
                      "caches travel by gRPC",
                      "--kv-transport grpc");
  });
}

void BindDecodeWorker(FlagSet* set, WorkerFlags* flags) {
  BindWorker(set, flags);
  BindRoles(set, &flags->roles, &flags->handoff);
  BindDraft(set, &flags->draft, &flags->engine);
  BindSwap(set, &flags->swap);
}

}  // namespace baton
