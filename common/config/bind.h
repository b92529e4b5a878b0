#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"

namespace baton {

// Each of these adds the flags of one group to `set`. Parsing writes to `flags`, whose values until
// then are the defaults; `flags` must outlive the set's last Parse.
void BindServer(FlagSet* set, ServerFlags* flags);  // listening, TLS, logging, lifecycle
void BindListen(FlagSet* set, ServerFlags* flags);
void BindTls(FlagSet* set, TlsFlags* tls);
// The same flags of a client, which may give --tls-ca alone.
void BindClientTls(FlagSet* set, TlsFlags* tls);
// --insecure and TLS, with the check that one of them is there beyond loopback.
void BindExposure(FlagSet* set, ServerFlags* flags);
void BindLifecycle(FlagSet* set, ServerFlags* flags);
// Of the connections that others make.
void BindConnectionAge(FlagSet* set, ServerFlags* flags);
void BindLog(FlagSet* set, ServerFlags* flags);
void BindTracing(FlagSet* set, ServerFlags* flags);
void BindEngine(FlagSet* set, EngineFlags* flags);
// What can be set about policies. `policies` says the names of those that are used: a setting that
// none of them reads is refused.
void BindPolicySettings(FlagSet* set, const std::string& group, PolicySettings* flags,
                        std::function<std::vector<std::string>()> policies);
void BindPrediction(FlagSet* set, PredictionFlags* flags);
void BindHandoff(FlagSet* set, HandoffFlags* flags);
// How a worker changes its role; `handoff` says how its KV caches travel.
void BindRoles(FlagSet* set, RoleFlags* flags, const HandoffFlags* handoff);
// The draft model of workers that generate; `engine` says on what they run.
void BindDraft(FlagSet* set, DraftFlags* flags, const EngineFlags* engine);
// Where answers that give way keep their KV, on workers that generate.
void BindSwap(FlagSet* set, SwapFlags* flags);
void BindRouting(FlagSet* set, RouterFlags* flags);
void BindTenants(FlagSet* set, RouterFlags* flags);
void BindHttp(FlagSet* set, RouterFlags* flags);
void BindModelDir(FlagSet* set, std::string* model_dir);
// --served-model-name, with the check that the name, or else that of the model at `model_dir`, can
// stand in JSON, metrics and logs.
void BindServedModelName(FlagSet* set, std::string* name, const std::string* model_dir,
                         const std::string& group, std::string help);

// Everything that a binary takes, with the checks over several flags: `baton-prefill DIR …`,
// `baton-decode DIR …`, which takes that and more, and `baton-router DIR …`.
void BindWorker(FlagSet* set, WorkerFlags* flags);
void BindDecodeWorker(FlagSet* set, WorkerFlags* flags);
void BindRouter(FlagSet* set, RouterFlags* flags);

// The defaults of each binary: distinct ports, so that all three start on one machine.
WorkerFlags DefaultPrefillFlags();
WorkerFlags DefaultDecodeFlags();

}  // namespace baton
