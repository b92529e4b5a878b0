#include "tools/sim/recorded_sampling.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "common/eos/line_source.h"
#include "nlohmann/json.hpp"
#include "tools/sim/read_text.h"

namespace baton::simulator {
namespace {

// Of the folder that `baton eos collect` writes.
constexpr char kCollectedRows[] = "rows.jsonl", kCollectedRequests[] = "requests.jsonl";

std::optional<float> NumberAt(const nlohmann::json& object, const char* key, double most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto number = found->get<double>();
  if (!(number >= 0 && number <= most)) return std::nullopt;
  return static_cast<float>(number);
}

std::optional<AnswerSampling> SamplingIn(const nlohmann::json& summary) {
  constexpr double kHottest = 1e6;
  const auto nested = summary.find("sampling");
  const nlohmann::json& said = nested != summary.end() && nested->is_object() ? *nested : summary;
  const auto temperature = NumberAt(said, "temperature", kHottest);
  const auto top_p = NumberAt(said, "top_p", 1);
  if (!temperature || !top_p) return std::nullopt;
  return AnswerSampling{.temperature = *temperature, .top_p = *top_p};
}

// FILE of FILE.N and FILE.N.zst.
std::string FileOfPart(std::string part) {
  if (part.ends_with(kZstdSuffix)) part.resize(part.size() - kZstdSuffix.size());
  return part.substr(0, part.rfind('.'));
}

}  // namespace

absl::StatusOr<RecordedSampling> RecordedSampling::Read(const LogFiles& log) {
  RecordedSampling sampling;
  const std::string file = log.live ? log.name : FileOfPart(log.parts.front());
  for (const LogPart& part : PartsOf(file, kRequestsSuffix)) {
    BATON_RETURN_IF_ERROR(sampling.ReadSummaries(part.path));
  }
  BATON_RETURN_IF_ERROR(sampling.ReadSummaries(absl::StrCat(file, std::string(kRequestsSuffix))));
  const std::filesystem::path path(file);
  if (path.filename() == kCollectedRows) {
    BATON_RETURN_IF_ERROR(sampling.ReadCollected(path.parent_path() / kCollectedRequests));
  }
  return sampling;
}

std::optional<AnswerSampling> RecordedSampling::Of(const std::string& request_id) const {
  const auto found = by_id_.find(request_id);
  return found == by_id_.end() ? std::nullopt : found->second;
}

absl::Status RecordedSampling::ReadSummaries(const std::string& path) {
  absl::StatusOr<LineSource> lines = LineSource::Open(path);
  if (absl::IsNotFound(lines.status())) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(lines.status());
  std::string_view line;
  while (true) {
    BATON_ASSIGN_OR_RETURN(const LineSource::Got got, lines->Next(&line));
    if (got == LineSource::Got::kEnd) return absl::OkStatus();
    if (got == LineSource::Got::kLine) Take(line);
  }
}

// Its lines hold the tokens of an answer and may be of any length.
absl::Status RecordedSampling::ReadCollected(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) Take(line);
  if (!file.bad()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("cannot read ", path));
}

void RecordedSampling::Take(std::string_view line) {
  const nlohmann::json summary = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) return;
  const auto id = summary.find("request_id");
  if (id == summary.end() || !id->is_string()) return;
  std::optional<AnswerSampling> said = SamplingIn(summary);
  const auto [known, is_new] = by_id_.try_emplace(id->get<std::string>(), said);
  // The answers of one request have a line each.
  if (!is_new && known->second != said) known->second.reset();
}

absl::Status CheckSampling(const std::string& file, int64_t unknown, size_t answers) {
  if (unknown == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadText(file, "");
  if (!text.ok()) return absl::OkStatus();
  for (const std::string input : {"temperature", "top_p"}) {
    // Names of inputs stand in lists of them.
    if (text->find(absl::StrCat("\"", input, "\"")) == std::string::npos) continue;
    return UsageError(
        absl::StrCat("--predictor ", file),
        absl::StrCat("it reads ", input, ", which is not known of ", unknown, " of the ", answers,
                     " answers; expected the logs as routers and eos collect write them, with "
                     "FILE.requests.jsonl or requests.jsonl beside them"),
        "--predictor learnt");
  }
  return absl::OkStatus();
}

}  // namespace baton::simulator
