#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/tls.h"
#include "tools/bench/plan/request_plan.h"

namespace baton::bench {

struct OpenAiClientOptions {
  // "http://host:port", with a path before "/v1" if the server wants one; "host:port" means http,
  // or https where `tls` has files, with which http is refused.
  std::string base_url;
  std::string model;
  float temperature = 0;
  std::optional<uint64_t> seed;  // of a request: seed + its index; absent = not sent
  // All but kHonor send "ignore_eos", the one way that the protocol has: what it does is the
  // server's (vLLM and Baton feed EOS back, llama.cpp masks it).
  EosMode eos = EosMode::kHonor;
  std::string tag;        // "baton.tag", which other servers do not know; empty = not sent
  std::string api_key;    // empty = $OPENAI_API_KEY, if that is set
  std::string as_tenant;  // header "baton-tenant"; empty = not sent
  bool stream = true;     // answers come as events
  // The host is looked up once, at the start. Else again as it is needed, because it may move.
  bool look_up_once = true;
  // By the proxy that the environment names, unless the host is this machine. What is measured is
  // the server alone.
  bool use_proxy = false;
  TlsOptions tls;           // for https: our certificate and the CA of the server's
  int64_t max_streams = 1;  // at once; open files are checked against it
  base::Duration timeout = std::chrono::seconds(600);        // of one request
  base::Duration connect_timeout = std::chrono::seconds(5);  // of one connection
  size_t max_event_bytes = 1 << 20;
};

// An OpenAI-compatible server and what all requests to it have in common.
class OpenAiTarget final {
 public:
  static absl::StatusOr<std::unique_ptr<OpenAiTarget>> Make(const OpenAiClientOptions& options);

  const OpenAiClientOptions& options() const { return options_; }
  // "http://host:port/v1"
  const std::string& root() const { return root_; }
  // "http://host:port/v1/completions"
  const std::string& url() const { return url_; }

  // Sets URL, headers, addresses and limits of a transfer: everything but body and callbacks. The
  // target must outlive `easy`.
  void SetUp(CURL* easy) const;
  std::string BodyOf(const PlannedRequest& request) const;
  // Asks for the list of models. UNAVAILABLE when nobody answers, UNAUTHENTICATED when the key is
  // refused; servers without such a list are fine.
  absl::Status Probe() const;
  // The first name of that list, which requests must carry; NOT_FOUND when it has none.
  absl::StatusOr<std::string> FirstModel() const;

 private:
  explicit OpenAiTarget(const OpenAiClientOptions& options) : options_(options) {}
  // The answer to GET /v1/models.
  struct Models {
    long http = 0;
    std::string body;
  };

  absl::Status TakeUrl();
  absl::Status Resolve(const std::string& host, const std::string& port);
  absl::StatusOr<Models> AskForModels() const;
  void MakeBodyPrefix();
  void MakeHeaders();
  absl::Status NobodyThere(std::string_view why) const;

  using List = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;
  static void Append(List* list, const std::string& text);

  const OpenAiClientOptions options_;
  bool direct_ = true;  // no proxy stands between
  std::string root_;    // up to and with "/v1"
  std::string url_;
  std::string body_prefix_;  // a JSON object without its last brace
  List headers_{nullptr, &curl_slist_free_all};
  List addresses_{nullptr, &curl_slist_free_all};  // of the host, asked for once
};

}  // namespace baton::bench
