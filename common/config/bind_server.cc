#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/config/http_url.h"

namespace baton {
namespace {

void AddTlsFlags(FlagSet* set, TlsFlags* tls) {
  const std::string group = "TLS";
  set->Add(
      With(InputFlag("tls-cert", &tls->cert), group,
           "certificate chain of this process, PEM; it names its role, a client's its tenant"));
  set->Add(With(InputFlag("tls-key", &tls->key), group, "private key of the certificate, PEM"));
  set->Add(With(InputFlag("tls-ca", &tls->ca), group,
                "authority that the peers' certificates must come from, PEM"));
}

// Whether a log of this name would be taken for a part of another one: FILE.N, or anything.zst.
bool NamesAPart(std::string_view path) {
  if (path.ends_with(".zst")) return true;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view number = name.substr(dot + 1);
  return !number.empty() && number[0] != '0' &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

void BindTls(FlagSet* set, TlsFlags* tls) {
  AddTlsFlags(set, tls);
  set->AddCheck([tls] {
    if (tls->cert.empty() == tls->key.empty() && tls->key.empty() == tls->ca.empty()) {
      return absl::OkStatus();
    }
    return UsageError("only some of --tls-cert, --tls-key and --tls-ca are given",
                      "a server needs all three, because TLS is mutual here",
                      "--tls-cert FILE --tls-key FILE --tls-ca FILE");
  });
}

void BindClientTls(FlagSet* set, TlsFlags* tls) {
  AddTlsFlags(set, tls);
  set->AddCheck([tls] {
    const bool pair = tls->cert.empty() == tls->key.empty();
    if (pair && (tls->cert.empty() || !tls->ca.empty())) return absl::OkStatus();
    return UsageError("only some of --tls-cert, --tls-key and --tls-ca are given",
                      "--tls-cert and --tls-key go together, and need --tls-ca",
                      "--tls-cert FILE --tls-key FILE --tls-ca FILE, or --tls-ca FILE alone");
  });
}

void BindLog(FlagSet* set, ServerFlags* flags) {
  const std::string group = "Logging";
  set->Add(With(ChoiceFlag("log-format", &flags->log_format,
                           Choices<base::LogFormat>{{"text", base::LogFormat::kText},
                                                    {"json", base::LogFormat::kJson}}),
                group, "form of the log lines on stderr"));
  Choices<std::string> levels;
  for (const char* level : {"trace", "debug", "info", "warn", "error", "off"}) {
    levels.emplace_back(level, level);
  }
  set->Add(Common(With(ChoiceFlag("log-level", &flags->log_level, std::move(levels)), group,
                       "lowest severity to log")));
  set->Add(
      With(DurationFlag("log-stats-interval", &flags->log_stats_interval, std::chrono::seconds(1)),
           group, "how often the load is logged while there is any; 0 = never"));
}

void BindTracing(FlagSet* set, ServerFlags* flags) {
  Flag endpoint = Valued(TextFlag("otlp-endpoint", &flags->otlp_endpoint), "URL|off");
  endpoint.set = [flags](const std::vector<std::string>& values) -> absl::Status {
    if (values.back() != "off") BATON_RETURN_IF_ERROR(ParseHttpUrl(values.back()).status());
    flags->otlp_endpoint = values.back() == "off" ? "" : values.back();
    return absl::OkStatus();
  };
  endpoint.get = [flags] {
    return std::vector<std::string>{flags->otlp_endpoint.empty() ? "off" : flags->otlp_endpoint};
  };
  set->Add(With(std::move(endpoint), "Tracing",
                "collector that takes traces by OTLP over HTTP, as http://collector:4318; without "
                "a path it is /v1/traces"));
}

void BindListen(FlagSet* set, ServerFlags* flags) {
  const std::string group = "Network";
  set->Add(Common(
      With(Valued(TextFlag("host", &flags->host), "ADDRESS"), group, "address to listen on")));
  set->Add(Common(With(PortFlag("port", &flags->port), group, "gRPC port; 0 = any free one")));
  set->Add(Common(With(PortFlag("admin-port", &flags->admin_port), group,
                       "HTTP port of /metrics, /healthz and /readyz; 0 = any free one")));
  set->Add(With(AddressFlag("advertise", &flags->advertise), group,
                "where others reach the gRPC port, for the ready line and, of a decode worker, for "
                "pushes; default: --host and the port"));
}

void BindLifecycle(FlagSet* set, ServerFlags* flags) {
  set->Add(With(DurationFlag("drain-timeout", &flags->drain_timeout, std::chrono::seconds(1)),
                "Lifecycle", "after SIGTERM, how long running requests may go on"));
  Flag failpoints = SwitchFlag("enable-failpoints", &flags->enable_failpoints);
  failpoints.hidden = true;
  set->Add(With(std::move(failpoints), "Lifecycle", "honour BATON_FAILPOINT; for tests"));
}

void BindConnectionAge(FlagSet* set, ServerFlags* flags) {
  const std::string group = "Clients";
  set->Add(With(
      DurationFlag("max-connection-age", &flags->max_connection_age, std::chrono::seconds(1)),
      group,
      "after so long a client is told to connect anew, so that clients behind a balancer spread "
      "again; 0 = never"));
  set->Add(
      With(DurationFlag("max-connection-age-grace", &flags->max_connection_age_grace,
                        std::chrono::seconds(1)),
           group,
           "how long requests on such a connection may then go on before they end as UNAVAILABLE; "
           "0 = as long as they take"));
}

void BindExposure(FlagSet* set, ServerFlags* flags) {
  set->Add(With(SwitchFlag("insecure", &flags->insecure), "Network",
                "without TLS, listen on more than loopback"));
  BindTls(set, &flags->tls);
  set->AddCheck([flags] {
    const std::string& host = flags->host;
    const bool loopback =
        host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
    if (loopback || flags->insecure || flags->tls.enabled()) return absl::OkStatus();
    return UsageError(absl::StrCat("--host ", host, " without TLS"),
                      "it would answer anyone who reaches it, in clear text",
                      "--tls-cert, --tls-key and --tls-ca, or --insecure in a trusted network");
  });
}

void BindServer(FlagSet* set, ServerFlags* flags) {
  BindListen(set, flags);
  BindExposure(set, flags);
  BindLog(set, flags);
  BindTracing(set, flags);
  BindLifecycle(set, flags);
}

namespace {

void BindLimits(FlagSet* set, RouterFlags* flags) {
  const std::string limits = "Request limits";
  set->Add(With(IntFlag("max-input-length", &flags->max_input_length, {.min = 0}), limits,
                "prompt tokens at most; 0 = what the workers take"));
  set->Add(With(IntFlag("max-output-length", &flags->max_output_length, {.min = 0}), limits,
                "generated tokens at most; 0 = what the workers take"));
  set->Add(Common(With(IntFlag("max-num-queued-reqs", &flags->max_num_queued_reqs, {.min = 1}),
                       limits, "requests that may wait for a worker; more are refused")));
  set->Add(With(SizeFlag("max-inflight-bytes", &flags->max_inflight_bytes,
                         {.min = int64_t{1} << 20, .max = int64_t{1} << 40}),
                limits,
                "messages, prompts and gathered answers of all requests in flight; more are "
                "refused, and of one client more than three times what is left"));
  set->Add(
      With(SizeFlag("client-buffer", &flags->client_buffer, {.min = 4096, .max = int64_t{1} << 40}),
           limits, "output held for a client that reads slowly"));
}

void BindEosLog(FlagSet* set, RouterFlags* flags) {
  const std::string eos = "End of sequence";
  set->Add(With(ChoiceFlag("ignore-eos", &flags->ignore_eos), eos,
                "what to do with requests that ignore EOS; warn counts and logs them"));
  Flag log = TextFlag("eos-log", &flags->eos_log);
  log.value = "FILE|off";
  log.path = PathUse::kOutput;
  log.set = [flags](const std::vector<std::string>& values) {
    flags->eos_log = values.back() == "off" ? "" : values.back();
    return absl::OkStatus();
  };
  log.get = [flags] {
    return std::vector<std::string>{flags->eos_log.empty() ? "off" : flags->eos_log};
  };
  set->Add(Common(With(std::move(log), eos, "where to write one JSON line per generated token")));
  set->Add(With(
      SizeFlag("eos-log-max-size", &flags->eos_log_max_size, {.min = 0, .max = int64_t{1} << 40}),
      eos, "FILE becomes FILE.N, then FILE.N.zst, before it is larger; 0 = never"));
  set->Add(With(IntFlag("eos-log-files", &flags->eos_log_files, {.min = 1, .max = 100'000}), eos,
                "how many FILE.N to keep; older ones are removed"));
  set->Add(With(DoubleFlag("eos-log-sample", &flags->eos_log_sample, {.min = 0, .max = 1}), eos,
                "share of requests in the log, chosen by their ids: all rows of one or none"));
  set->AddCheck([flags] {
    constexpr int64_t kLeast = int64_t{1} << 20;
    if (flags->eos_log_max_size == 0 || flags->eos_log_max_size >= kLeast) return absl::OkStatus();
    return UsageError(absl::StrCat("--eos-log-max-size is ", flags->eos_log_max_size),
                      "expected at least 1MiB, or 0 for a log that is never rotated",
                      "--eos-log-max-size 64MiB");
  });
  set->AddCheck([flags] {
    if (!NamesAPart(flags->eos_log)) return absl::OkStatus();
    return UsageError(absl::StrCat("--eos-log ", flags->eos_log, " is the name of a part of a log"),
                      "whoever reads it would get this part alone; expected a name that ends "
                      "neither in .N nor in .zst",
                      "--eos-log eos_probabilities.jsonl");
  });
  Flag optional = SwitchFlag("eos-log-optional", &flags->eos_log_optional);
  optional.hidden = true;
  set->Add(With(std::move(optional), eos, "start without the EOS log where it cannot be written"));
}

}  // namespace

void BindRouting(FlagSet* set, RouterFlags* flags) {
  const std::string model = "Model";
  BindServedModelName(set, &flags->served_model_name, &flags->model_dir, model,
                      "the name requests use; default: last part of DIR, without .gguf");
  set->Edit("served-model-name").common = true;
  set->Add(With(OptionalUint64Flag("seed", &flags->seed), model,
                "makes the seeds drawn for requests without one repeatable"));
  BindLimits(set, flags);
  BindEosLog(set, flags);
  set->Add(Common(With(ChoiceFlag("routing", &flags->routing), "Workers",
                       "by what workers are chosen: their load; how much of the prompt they have "
                       "cached; how long what they have is expected to stay; or a sum of these")));
  set->Add(With(
      IntOrWordFlag("local-prefill-below", &flags->local_prefill_below, {.min = 0}, "auto"),
      "Workers",
      "prompts with fewer uncached tokens are prefilled by their decode worker; auto: those that "
      "this is estimated to delay all requests less by than a prefill worker"));
  set->Add(With(DoubleFlag("trace-sample", &flags->trace_sample, {.min = 0, .max = 1}), "Tracing",
                "share of requests that are traced, chosen by the ids of their traces; a caller "
                "that sends a traceparent decides itself"));
  BindTenants(set, flags);
  BindConnectionAge(set, &flags->server);
  BindHttp(set, flags);
}

void BindRouter(FlagSet* set, RouterFlags* flags) {
  BindModelDir(set, &flags->model_dir);
  set->Add(Common(With(AddressListFlag("decode-workers", &flags->decode_workers), "Workers",
                       "host:port of each, or name:port of dns names that resolve to them")));
  set->Add(Common(With(AddressListFlag("prefill-workers", &flags->prefill_workers), "Workers",
                       "as --decode-workers; without any, decode workers prefill too")));
  Flag start =
      DurationFlag("worker-start-timeout", &flags->worker_start_timeout, std::chrono::seconds(1));
  start.hidden = true;
  set->Add(With(std::move(start), "Workers",
                "how long nobody may listen where a worker should, until the log says so"));
  BindRouting(set, flags);
  BindServer(set, &flags->server);
  set->AddCheck([flags] {
    if (!flags->decode_workers.empty()) return absl::OkStatus();
    return UsageError("--decode-workers is missing", "expected host:port of at least one worker",
                      "--decode-workers 127.0.0.1:50053, or `baton serve DIR` to start them all");
  });
}

}  // namespace baton
