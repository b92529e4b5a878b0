#include <chrono>

#include "common/base/shown_text.h"
#include "common/config/bind.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "tools/client/health_client.h"
#include "tools/client/no_server.h"
#include "tools/commands.h"

namespace baton {

int ProbeCommand(const Invocation& call) {
  std::string address;
  std::string service;
  base::Duration timeout = std::chrono::seconds(2);
  TlsFlags tls;
  std::string role = "router";
  FlagSet set("baton probe", "probe",
              "Asks a server for its health: exit 0 when it serves, else 1.");
  Flag positional = Valued(AddressFlag("address", &address), "ADDR");
  positional.help = "host:port of a gRPC server";
  positional.positional = positional.required = true;
  set.Add(std::move(positional));
  set.Add(Common(With(Valued(TextFlag("service", &service), "NAME"), "Probe of a server",
                      "one service, e.g. baton.v1.InferenceService; default: the whole server")));
  set.Add(Common(With(DurationFlag("timeout", &timeout, std::chrono::seconds(1)),
                      "Probe of a server", "how long to wait for the answer")));
  set.Add(With(Valued(TextFlag("tls-role", &role), "NAME"), "TLS",
               "the role that the server's certificate names"));
  BindClientTls(&set, &tls);
  if (const auto exit = call.Read(&set)) return *exit;
  const AddressWords words = {.named_by = "as ADDR",
                              .other_role =
                                  "--tls-role with the role that it names: decode, prefill or "
                                  "router, which is expected otherwise"};
  const auto health = CheckHealth(address, service, timeout, {.tls = tls, .role = role});
  if (absl::IsNotFound(health.status())) {
    return ReportFatal(
        set.program(),
        {.code = ExitCode::kRequestFailed,
         .what = "cannot probe " + address,
         .why = "there is no service '" + ShownText(service) + "' there",
         .next = "--service baton.v1.InferenceService of a router, or leave --service out"});
  }
  if (!health.ok()) {
    return ReportFatal(set.program(), FatalOf(ExplainNoServer(health.status(), address, words),
                                              ExitCode::kRequestFailed, "cannot probe " + address,
                                              "the address of a running server"));
  }
  Print(std::string(HealthName(*health)) + "\n");
  return ToInt(*health == Health::kServing ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace baton
