#include "tools/serve/serve_flags.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "tools/serve/supervisor.h"

namespace baton {
namespace {

constexpr std::array<std::string_view, 6> kEngineGroups = {"Batching", "KV cache",    "Device",
                                                           "Ends",     "Speculation", "Handoff"};
// Only elastic workers know these: they are decode workers, all of them.
constexpr std::array<std::string_view, 1> kElasticGroups = {"Roles"};
// Only workers that generate know these.
constexpr std::array<std::string_view, 2> kGeneratingGroups = {"Draft model", "Preemption"};
constexpr std::array<std::string_view, 8> kRouterGroups = {
    "Model", "Request limits",  "Tenants", "Clients",
    "HTTP",  "End of sequence", "Workers", "Tracing"};
constexpr std::array<std::string_view, 3> kSharedGroups = {"TLS", "Logging", "Lifecycle"};

template <size_t n>
bool IsIn(const std::array<std::string_view, n>& groups, const std::string& group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

void Spell(const Flag& flag, std::vector<std::string>* arguments) {
  for (const std::string& value : flag.get()) {
    arguments->push_back(absl::StrCat("--", flag.name, "=", value));
  }
}

// Spells out the flags of `groups` that were given.
template <size_t n>
void SpellGiven(const FlagSet& set, const std::array<std::string_view, n>& groups,
                std::vector<std::string>* arguments) {
  for (const Flag& flag : set.flags()) {
    if (IsIn(groups, flag.group) && set.Given(flag.name)) Spell(flag, arguments);
  }
}

// Adds the settings that follow from what `serve` knows and its workers do not: how many share a
// GPU, and that all are on one host.
void AddGpuSettings(const FlagSet& set, const ServeFlags& flags, const MachineShare& share,
                    std::vector<std::string>* arguments) {
  if (share.gpu_sharers > 1) {
    // A flag that is given twice counts as given last.
    arguments->push_back(absl::StrCat("--gpu-memory-utilization=",
                                      flags.engine.gpu_memory_utilization / share.gpu_sharers));
  }
  if (!flags.unified && !flags.roles.elastic && !set.Given("kv-transport")) {
    arguments->push_back("--kv-transport=" + WordOf(KvTransportFlag::kCudaIpc));
  }
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ",") + part;
  return joined;
}

// What is about prefill workers means nothing where there are none.
absl::Status CheckUnified(const ServeFlags& flags) {
  if (!flags.unified) return absl::OkStatus();
  if (flags.roles.elastic) {
    return UsageError("--elastic with --mode unified",
                      "unified workers prefill and decode at once, so they have no role to change",
                      "one of the two");
  }
  const ServeFlags defaults;
  std::string given;
  if (flags.prefill != defaults.prefill) given = "--prefill";
  if (flags.router.local_prefill_below != defaults.router.local_prefill_below) {
    given = "--local-prefill-below";
  }
  if (flags.handoff.transport != defaults.handoff.transport) given = "--kv-transport";
  if (given.empty()) return absl::OkStatus();
  return UsageError(given + " with --mode unified",
                    "there are no prefill workers then, and nothing is handed over",
                    "--decode N for more workers, or --mode split");
}

}  // namespace

void BindServe(FlagSet* set, ServeFlags* flags) {
  BindModelDir(set, &flags->router.model_dir);
  const std::string group = "Processes";
  set->Add(Common(With(IntFlag("prefill", &flags->prefill, {.min = 1, .max = 256}), group,
                       "number of prefill workers")));
  set->Add(Common(With(IntFlag("decode", &flags->decode, {.min = 1, .max = 256}), group,
                       "number of decode workers")));
  set->Add(Common(
      With(ChoiceFlag("mode", &flags->unified, Choices<bool>{{"split", false}, {"unified", true}}),
           group, "unified: decode workers prefill too, there are no others")));
  BindListen(set, &flags->router.server);
  BindExposure(set, &flags->router.server);
  set->Edit("tls-cert").help = "certificate chain of all processes, PEM; it names all three roles";
  BindEngine(set, &flags->engine);
  BindPrediction(set, &flags->prediction);
  BindHandoff(set, &flags->handoff);
  BindRoles(set, &flags->roles, &flags->handoff);
  BindDraft(set, &flags->draft, &flags->engine);
  BindSwap(set, &flags->swap);
  set->AddCheck([flags] { return CheckUnified(*flags); });
  set->AddCheck([flags] {
    if (!flags->router.share_prefix_cache || flags->engine.enable_prefix_caching) {
      return absl::OkStatus();
    }
    return UsageError("--share-prefix-cache with --no-enable-prefix-caching",
                      "there is no prefix cache to share", "one of the two");
  });
  set->Remove("max-num-queued-reqs");
  BindRouting(set, &flags->router);
  BindLog(set, &flags->router.server);
  BindTracing(set, &flags->router.server);
  BindLifecycle(set, &flags->router.server);
}

std::vector<std::string> WorkerArguments(const FlagSet& set, const ServeFlags& flags,
                                         const MachineShare& share, WorkerAddress address) {
  std::vector<std::string> arguments = {flags.router.model_dir, "--host=127.0.0.1",
                                        absl::StrCat("--port=", address.port),
                                        absl::StrCat("--admin-port=", address.admin_port)};
  if (!flags.router.served_model_name.empty()) {
    arguments.push_back("--served-model-name=" + flags.router.served_model_name);
  }
  SpellGiven(set, kEngineGroups, &arguments);
  if (flags.roles.elastic) SpellGiven(set, kElasticGroups, &arguments);
  if (share.generates) SpellGiven(set, kGeneratingGroups, &arguments);
  if (set.Given("predictor")) arguments.push_back("--predictor=" + flags.prediction.predictor);
  if (!flags.prediction.state.empty() && share.learner >= 0) {
    const std::string suffix = share.learner == 0 ? "" : absl::StrCat(".", share.learner);
    arguments.push_back("--predictor-state=" + flags.prediction.state + suffix);
  }
  if (!flags.router.server.otlp_endpoint.empty()) {
    arguments.push_back("--otlp-endpoint=" + flags.router.server.otlp_endpoint);
  }
  if (!set.Given("load-cache") && !share.load_cache.empty()) {
    arguments.push_back("--load-cache=" + share.load_cache);
  }
  if (!set.Given("threads")) arguments.push_back(absl::StrCat("--threads=", share.threads));
  if (flags.engine.device == DeviceFlag::kCuda) AddGpuSettings(set, flags, share, &arguments);
  SpellGiven(set, kSharedGroups, &arguments);
  return arguments;
}

std::vector<std::string> RouterArguments(const FlagSet& set, const ServeFlags& flags,
                                         const std::vector<std::string>& prefill_addresses,
                                         const std::vector<std::string>& decode_addresses) {
  std::vector<std::string> arguments = {flags.router.model_dir,
                                        "--decode-workers=" + Joined(decode_addresses)};
  if (!prefill_addresses.empty()) {
    arguments.push_back("--prefill-workers=" + Joined(prefill_addresses));
  }
  for (const char* name :
       {"host", "port", "admin-port", "http-port", "insecure", "ignore-eos", "eos-log"}) {
    for (const Flag& flag : set.flags()) {
      if (flag.name == name) Spell(flag, &arguments);
    }
  }
  for (const Flag& flag : set.flags()) {
    const bool spelled =
        flag.name == "ignore-eos" || flag.name == "eos-log" || flag.name == "http-port";
    if (!spelled && IsIn(kRouterGroups, flag.group) && set.Given(flag.name)) {
      Spell(flag, &arguments);
    }
  }
  // Whoever lets the system choose the port does not expect that another one is a certain one.
  if (flags.router.server.port == 0 && !set.Given("http-port")) {
    arguments.push_back("--http-port=0");
  }
  // The workers start after the router, and their own lines say how far they are.
  arguments.push_back(absl::StrCat(
      "--worker-start-timeout=", base::Seconds(SupervisorOptions().start_timeout), "s"));
  // Nobody asked for a log at the default path, so it is no reason not to serve.
  if (!set.Given("eos-log")) arguments.push_back("--eos-log-optional=true");
  SpellGiven(set, kSharedGroups, &arguments);
  return arguments;
}

std::vector<int32_t> DivideThreads(int32_t cores, int32_t workers) {
  std::vector<int32_t> threads(static_cast<size_t>(workers), std::max(1, cores / workers));
  for (int32_t i = 0; i < cores % workers && cores > workers; ++i)
    ++threads[static_cast<size_t>(i)];
  return threads;
}

}  // namespace baton
