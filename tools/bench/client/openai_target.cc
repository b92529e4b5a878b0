#include "tools/bench/client/openai_target.h"

#include <netdb.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/server.h"
#include "nlohmann/json.hpp"

namespace baton::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

std::string PartOf(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

long MillisecondsOf(base::Duration duration) {
  return static_cast<long>(base::Milliseconds(duration));
}

// Keeps the start of an answer; a list of models is short.
size_t Keep(char* bytes, size_t size, size_t count, void* into) {
  constexpr size_t kMost = 1 << 20;
  auto* const body = static_cast<std::string*>(into);
  body->append(bytes, std::min(size * count, kMost - body->size()));
  return size * count;
}

// Token ids as JSON: "[1,2,3]".
std::string ListOf(const std::vector<int32_t>& ids) {
  std::string list = "[";
  list.reserve(8 * ids.size() + 2);
  for (const int32_t id : ids) absl::StrAppend(&list, list.size() > 1 ? "," : "", id);
  return list + "]";
}

std::string Quoted(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpenAiTarget>> OpenAiTarget::Make(
    const OpenAiClientOptions& options) {
  std::unique_ptr<OpenAiTarget> target(new OpenAiTarget(options));
  BATON_RETURN_IF_ERROR(target->TakeUrl());
  target->MakeBodyPrefix();
  target->MakeHeaders();
  return target;
}

absl::Status OpenAiTarget::TakeUrl() {
  const std::string& given = options_.base_url;
  const bool tls = options_.tls.enabled();
  const std::string text =
      given.find("://") != std::string::npos ? given : (tls ? "https://" : "http://") + given;
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  BATON_CHECK(url != nullptr);
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0);
  const std::string scheme = PartOf(url.get(), CURLUPART_SCHEME);
  if (code != CURLUE_OK || (scheme != "http" && scheme != "https")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", given, "' is not the address of an OpenAI-compatible server (",
                     code != CURLUE_OK ? curl_url_strerror(code) : "only http and https are known",
                     "); expected http://HOST:PORT"));
  }
  if (tls && scheme == "http") {
    return absl::InvalidArgumentError(
        absl::StrCat("files for TLS are given, and '", given,
                     "' would be asked in clear text; expected https://HOST:PORT, or an address "
                     "without a scheme; leave --tls-ca, --tls-cert and --tls-key out for http"));
  }
  const std::string host = PartOf(url.get(), CURLUPART_HOST);
  const std::string port = PartOf(url.get(), CURLUPART_PORT);
  std::string path = PartOf(url.get(), CURLUPART_PATH);
  while (path.ends_with('/')) path.pop_back();
  if (!path.ends_with("/v1")) path += "/v1";
  root_ = absl::StrCat(scheme, "://", host, ":", port, path);
  url_ = root_ + "/completions";
  direct_ = !options_.use_proxy || IsLoopback(host);
  return options_.look_up_once ? Resolve(host, port) : absl::OkStatus();
}

// curl would ask again, on a thread of its own, for each of the first requests.
absl::Status OpenAiTarget::Resolve(const std::string& host, const std::string& port) {
  if (host.starts_with('[')) return absl::OkStatus();  // a literal IPv6 address
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return NobodyThere(gai_strerror(code));
  std::string entry = absl::StrCat(host, ":", port, ":");
  const char* separator = "";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    char name[NI_MAXHOST];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, name, sizeof(name), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    const bool six = info->ai_family == AF_INET6;
    absl::StrAppend(&entry, separator, six ? "[" : "", name, six ? "]" : "");
    separator = ",";
  }
  freeaddrinfo(found);
  Append(&addresses_, entry);
  return absl::OkStatus();
}

void OpenAiTarget::MakeBodyPrefix() {
  OrderedJson body = {
      {"model", options_.model}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (options_.eos != EosMode::kHonor) body["ignore_eos"] = true;
  if (!options_.tag.empty()) body["baton"] = {{"tag", options_.tag}};
  body_prefix_ = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  body_prefix_.pop_back();
}

void OpenAiTarget::MakeHeaders() {
  Append(&headers_, "Content-Type: application/json");
  Append(&headers_, options_.stream ? "Accept: text/event-stream" : "Accept: application/json");
  if (!options_.as_tenant.empty()) Append(&headers_, "baton-tenant: " + options_.as_tenant);
  Append(&headers_, "Expect:");  // a long prompt must not wait for "100 Continue"
  std::string key = options_.api_key;
  if (const char* from_env = std::getenv("OPENAI_API_KEY"); key.empty() && from_env != nullptr) {
    key = from_env;
  }
  if (!key.empty()) Append(&headers_, "Authorization: Bearer " + key);
}

void OpenAiTarget::Append(List* list, const std::string& text) {
  curl_slist* const longer = curl_slist_append(list->get(), text.c_str());
  BATON_CHECK(longer != nullptr);
  static_cast<void>(list->release());
  list->reset(longer);
}

void OpenAiTarget::SetUp(CURL* easy) const {
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  if (addresses_ != nullptr) curl_easy_setopt(easy, CURLOPT_RESOLVE, addresses_.get());
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  if (direct_) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, MillisecondsOf(options_.timeout));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, MillisecondsOf(options_.connect_timeout));
  const TlsOptions& tls = options_.tls;
  if (!tls.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, tls.ca_file.c_str());
  if (!tls.cert_file.empty()) curl_easy_setopt(easy, CURLOPT_SSLCERT, tls.cert_file.c_str());
  if (!tls.key_file.empty()) curl_easy_setopt(easy, CURLOPT_SSLKEY, tls.key_file.c_str());
}

std::string OpenAiTarget::BodyOf(const PlannedRequest& request) const {
  const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt);
  std::string body = body_prefix_;
  absl::StrAppend(&body, ",\"max_tokens\":", request.max_tokens);
  if (request.preset.empty()) {
    absl::StrAppend(&body, ",\"temperature\":", options_.temperature);
  } else {
    absl::StrAppend(&body, ",\"preset\":", Quoted(request.preset));
  }
  if (options_.seed) {
    absl::StrAppend(&body, ",\"seed\":", *options_.seed + static_cast<uint64_t>(request.index));
  }
  absl::StrAppend(&body, ",\"prompt\":",
                  ids != nullptr ? ListOf(*ids) : Quoted(std::get<std::string>(request.prompt)),
                  "}");
  return body;
}

absl::StatusOr<OpenAiTarget::Models> OpenAiTarget::AskForModels() const {
  const std::unique_ptr<CURL, FreeEasy> easy(curl_easy_init());
  BATON_CHECK(easy != nullptr);
  SetUp(easy.get());
  const std::string models = root_ + "/models";
  curl_easy_setopt(easy.get(), CURLOPT_URL, models.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, MillisecondsOf(options_.connect_timeout));
  Models answer;
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &Keep);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer.body);
  std::vector<char> error(CURL_ERROR_SIZE, '\0');
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, error.data());
  const CURLcode code = curl_easy_perform(easy.get());
  if (code != CURLE_OK) {
    return NobodyThere(error[0] != '\0' ? error.data() : curl_easy_strerror(code));
  }
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &answer.http);
  if (answer.http == 407) {
    return absl::UnavailableError(
        absl::StrCat("the proxy on the way to ", root_,
                     " answered HTTP 407; put a user and a password that it takes into its URL"));
  }
  if (answer.http != 401 && answer.http != 403) return answer;
  return absl::UnauthenticatedError(absl::StrCat(models, " answered HTTP ", answer.http,
                                                 "; set OPENAI_API_KEY to a key that it takes"));
}

absl::Status OpenAiTarget::Probe() const { return AskForModels().status(); }

absl::StatusOr<std::string> OpenAiTarget::FirstModel() const {
  BATON_ASSIGN_OR_RETURN(const Models answer, AskForModels());
  const OrderedJson models = OrderedJson::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const auto name = OrderedJson::json_pointer("/data/0/id");
  if (models.is_object() && models.contains(name) && models[name].is_string()) {
    return models[name].get<std::string>();
  }
  return absl::NotFoundError(
      absl::StrCat(root_, "/models names no model (HTTP ", answer.http, "); give --model"));
}

absl::Status OpenAiTarget::NobodyThere(std::string_view why) const {
  return absl::UnavailableError(absl::StrCat("no server at ", root_, ": ", std::string(why),
                                             "; start one there, or name another with --server"));
}

}  // namespace baton::bench
