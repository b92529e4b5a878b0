#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/config/numbers.h"

namespace baton {
namespace {

constexpr int32_t kMaxPort = 65'535;

Flag HttpPortFlag(std::optional<int32_t>* port) {
  Flag flag;
  flag.name = "http-port";
  flag.value = "PORT|off";
  flag.is_port = true;
  flag.set = [port](const std::vector<std::string>& values) -> absl::Status {
    const std::string& text = values.back();
    if (text == "off") {
      port->reset();
      return absl::OkStatus();
    }
    const auto number = ParseNumber<int32_t>(text);
    if (!number || *number < 0 || *number > kMaxPort) {
      return absl::InvalidArgumentError(
          absl::StrCat("found '", text, "', expected an integer from 0 to ", kMaxPort, ", or off"));
    }
    *port = *number;
    return absl::OkStatus();
  };
  flag.get = [port]() -> std::vector<std::string> {
    return {*port ? std::to_string(**port) : "off"};
  };
  return flag;
}

// As browsers send it: a scheme and a host, perhaps a port, and nothing behind.
bool IsOrigin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (text == "*") return true;
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?# ") == std::string_view::npos;
}

// What is about the port means nothing where there is none.
absl::Status CheckHttpIsOn(const HttpFlags& flags) {
  if (flags.port) return absl::OkStatus();
  const HttpFlags defaults;
  std::string given;
  if (flags.max_body != defaults.max_body) given = "--http-max-body";
  if (flags.max_connections != defaults.max_connections) given = "--http-max-connections";
  if (!flags.allow_origins.empty()) given = "--http-allow-origins";
  if (given.empty()) return absl::OkStatus();
  return UsageError(given + " without --http-port", "the OpenAI API over HTTP is off then",
                    "--http-port 8000");
}

}  // namespace

void BindHttp(FlagSet* set, RouterFlags* flags) {
  const std::string group = "HTTP";
  HttpFlags* const http = &flags->http;
  set->Add(Common(With(HttpPortFlag(&http->port), group,
                       "port of the OpenAI API over HTTP, on --host and with the same TLS; 0 = any "
                       "free one")));
  set->Add(With(Valued(CommaListFlag("http-allow-origins", &http->allow_origins), "ORIGIN,..."),
                group,
                "pages that may ask from a browser, as https://chat.example.org; * = all. The page "
                "on the admin port always may. On loopback their hosts may be asked, too"));
  set->Add(With(
      IntFlag("http-max-connections", &http->max_connections, {.min = 16, .max = 1 << 20}), group,
      "connections at once; beyond them the one closes that has waited longest for a request, "
      "or for the rest of one, and 503 where none has. The limit of open files may allow fewer"));
  set->Add(With(SizeFlag("http-max-body", &http->max_body, {.min = 1024, .max = int64_t{1} << 30}),
                group, "of one request; larger ones get 413"));
  set->AddCheck([http] { return CheckHttpIsOn(*http); });
  set->AddCheck([http]() -> absl::Status {
    for (const std::string& origin : http->allow_origins) {
      if (IsOrigin(origin)) continue;
      return UsageError(absl::StrCat("--http-allow-origins has '", origin, "'"),
                        "expected scheme://host or scheme://host:port, without a path",
                        "--http-allow-origins https://chat.example.org");
    }
    return absl::OkStatus();
  });
}

}  // namespace baton
