#include "router/page/status_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/sample/presets.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using PageJson = nlohmann::ordered_json;

// Of a request's id, which a client may have chosen.
constexpr size_t kIdBytes = 24;

// Three digits behind the point are enough to draw.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

PageJson WorkerJson(const WorkerReport& worker) {
  return {{"address", worker.address},
          {"role", WorkerKindName(worker.kind)},
          {"state", worker.healthy         ? "serving"
                    : worker.load.draining ? "draining"
                    : worker.other_role    ? "other_role"
                                           : "unreachable"},
          {"running", worker.load.running},
          {"waiting", worker.load.waiting},
          {"blocks_total", worker.load.blocks_total},
          {"blocks_in_use", worker.load.blocks_in_use},
          {"foreseen", worker.load.foreseen},
          {"expected_tokens", Rounded(worker.load.expected_tokens)}};
}

PageJson HttpJson(const std::optional<HttpFacts>& http) {
  if (!http) return nullptr;
  PageJson presets = PageJson::array();
  for (const SamplingPreset& preset : SamplingPresets()) presets.push_back(preset.name);
  return {{"port", http->port},
          {"tls", http->tls},
          {"keys", http->keys},
          {"presets", std::move(presets)}};
}

PageJson RecentJson(const std::vector<RecentFigures::Point>& points) {
  PageJson recent = {{"interval_s", base::Seconds(RecentFigures::kEvery)}};
  const auto series = [&](const char* name, auto value) {
    PageJson values = PageJson::array();
    for (const RecentFigures::Point& point : points) values.push_back(Rounded(value(point)));
    recent[name] = std::move(values);
  };
  series("requests_per_s", [](const auto& point) { return point.requests; });
  series("prompt_tokens_per_s", [](const auto& point) { return point.prompt_tokens; });
  series("output_tokens_per_s", [](const auto& point) { return point.output_tokens; });
  series("ttft_ms_p50", [](const auto& point) { return point.ttft_ms[0]; });
  series("ttft_ms_p95", [](const auto& point) { return point.ttft_ms[1]; });
  series("ttft_ms_p99", [](const auto& point) { return point.ttft_ms[2]; });
  series("gap_ms_p50", [](const auto& point) { return point.gap_ms[0]; });
  series("gap_ms_p95", [](const auto& point) { return point.gap_ms[1]; });
  series("gap_ms_p99", [](const auto& point) { return point.gap_ms[2]; });
  return recent;
}

std::string_view StageName(RequestStage stage) {
  constexpr std::array<std::string_view, 4> kNames = {"queued", "reserving", "prefilling",
                                                      "decoding"};
  return kNames[static_cast<size_t>(stage)];
}

PageJson RequestsJson(const RouterStatus& status) {
  PageJson json = {{"queued", 0},
                   {"reserving", 0},
                   {"prefilling", 0},
                   {"decoding", 0},
                   {"answered", status.answered},
                   {"failed", status.failed}};
  std::array<int64_t, 4> counts{};
  for (const RequestReport& request : status.requests) ++counts[static_cast<size_t>(request.stage)];
  for (size_t i = 0; i < counts.size(); ++i)
    json[StageName(RequestStage{static_cast<int>(i)})] = counts[i];
  return json;
}

// A character that is cut is replaced when the JSON is written.
std::string ShortId(const std::string& id) {
  return id.size() <= kIdBytes ? id : id.substr(0, kIdBytes) + "…";
}

// Of several answers, the further ones say which they are.
std::string IdOf(const RequestReport& request) {
  const std::string id = ShortId(request.id);
  return request.index == 0 ? id : absl::StrCat(id, " #", request.index);
}

PageJson OldestJson(std::vector<RequestReport>* requests) {
  const auto shown = std::min(requests->size(), kRequestsShown);
  std::partial_sort(
      requests->begin(), requests->begin() + static_cast<ptrdiff_t>(shown), requests->end(),
      [](const RequestReport& one, const RequestReport& other) { return one.age > other.age; });
  PageJson json = PageJson::array();
  for (size_t i = 0; i < shown; ++i) {
    const RequestReport& request = (*requests)[i];
    PageJson foreseen;
    if (request.foreseen) {
      foreseen = {{"expected_remaining", Rounded(request.foreseen->expected_remaining)},
                  {"p50", Rounded(request.foreseen->p50)},
                  {"p90", Rounded(request.foreseen->p90)}};
    }
    json.push_back({{"id", IdOf(request)},
                    {"stage", StageName(request.stage)},
                    {"age_s", Rounded(base::Seconds(request.age))},
                    {"prompt_tokens", request.prompt_tokens},
                    {"tokens", request.tokens},
                    {"foreseen", std::move(foreseen)}});
  }
  return json;
}

// Three significant digits, because probabilities of an end are small.
double Digits(double value) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.2e", value), &rounded) ? rounded : 0;
}

PageJson AnswerJson(const EosFigures::RecentAnswer& answer) {
  PageJson cells = PageJson::array();
  for (const float value : answer.trace.cells()) cells.push_back(Digits(value));
  return {{"id", ShortId(answer.request_id)},
          {"finish_reason", FinishReasonName(answer.reason)},
          {"tokens", answer.trace.steps()},
          {"steps_per_cell", answer.trace.steps_per_cell()},
          {"eos_prob", std::move(cells)}};
}

PageJson CalibrationJson(const EndCalibration& calibration) {
  PageJson json = PageJson::array();
  for (size_t i = 0; i < calibration.size(); ++i) {
    PageJson bins = PageJson::array();
    for (const EndBin& bin : calibration[i]) {
      const double count = std::max(bin.estimates, 1e-9);
      bins.push_back({{"estimates", Rounded(bin.estimates)},
                      {"said", Rounded(bin.said / count)},
                      {"ended", Rounded(bin.ended / count)},
                      {"unknown", Rounded(bin.unknown / count)}});
    }
    json.push_back({{"within", kEndHorizons[i]}, {"bins", std::move(bins)}});
  }
  return json;
}

PageJson EosJson(const EosFigures::Figures& eos) {
  PageJson answers = PageJson::array();
  for (const EosFigures::RecentAnswer& answer : eos.answers) answers.push_back(AnswerJson(answer));
  return {{"watched", eos.watched},
          {"sample", EosFigures::kSample},
          {"answers", std::move(answers)},
          {"calibration", CalibrationJson(eos.calibration)}};
}

}  // namespace

std::string StatusJson(RouterStatus status) {
  double expected = 0;
  int64_t foreseen = 0;
  for (const WorkerReport& worker : status.workers) {
    if (worker.other_role) continue;  // it stands here once more, in the role that it takes
    expected += worker.load.expected_tokens;
    foreseen += worker.load.foreseen;
  }
  std::stable_partition(
      status.workers.begin(), status.workers.end(),
      [](const WorkerReport& worker) { return !worker.healthy && !worker.other_role; });
  PageJson workers = PageJson::array();
  for (const WorkerReport& worker : status.workers) {
    if (workers.size() == kWorkersShown) break;
    workers.push_back(WorkerJson(worker));
  }
  const PageJson json = {{"model", status.model},
                         {"state", status.state},
                         {"uptime_s", Rounded(status.uptime_s)},
                         {"http", HttpJson(status.http)},
                         {"workers_total", status.workers.size()},
                         {"workers", workers},
                         {"requests", RequestsJson(status)},
                         {"oldest", OldestJson(&status.requests)},
                         {"foreseen", {{"sequences", foreseen}, {"tokens", Rounded(expected)}}},
                         {"eos", EosJson(status.eos)},
                         {"recent", RecentJson(status.recent)}};
  return json.dump(-1, ' ', false, PageJson::error_handler_t::replace);
}

}  // namespace baton
