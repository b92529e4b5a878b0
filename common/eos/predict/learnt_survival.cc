#include "common/eos/predict/learnt_survival.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/predict/json_fields.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr int32_t kExactSteps = 256;        // each has a cell of its own
constexpr int32_t kLongest = 1 << 20;       // the last cell holds all steps from there on
constexpr double kGrowth = 1.08;            // of the cells behind the exact ones
constexpr double kForget = 1 - 1.0 / 4096;  // per end: about so many requests count
constexpr double kMostHazard = 1 - 1e-9;

// The last step of each cell.
const std::vector<int32_t>& CellEnds() {
  static const std::vector<int32_t> ends = [] {
    std::vector<int32_t> made;
    for (int32_t step = 1; step <= kExactSteps; ++step) made.push_back(step);
    while (made.back() < kLongest) made.push_back(static_cast<int32_t>(made.back() * kGrowth));
    return made;
  }();
  return ends;
}

size_t CellOf(int64_t step) {
  if (step <= kExactSteps) return static_cast<size_t>(std::max<int64_t>(step, 1) - 1);
  const auto& ends = CellEnds();
  const auto found = std::lower_bound(ends.begin() + kExactSteps, ends.end(), step);
  return std::min(static_cast<size_t>(found - ends.begin()), ends.size() - 1);
}

nlohmann::json Rounded(const std::vector<double>& numbers) {
  // What is left of long ago is not worth its digits, and trailing zeros are not written.
  nlohmann::json json = nlohmann::json::array();
  size_t used = numbers.size();
  while (used > 0 && numbers[used - 1] < 1e-6) --used;
  for (size_t i = 0; i < used; ++i) json.push_back(std::round(numbers[i] * 1e6) / 1e6);
  return json;
}

absl::StatusOr<std::vector<double>> Counts(const JsonFields& fields, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(std::vector<double> counts, fields.Numbers(key));
  const bool in_range = std::all_of(counts.begin(), counts.end(),
                                    [](double count) { return count >= 0 && count < 1e12; });
  if (counts.size() > CellEnds().size() || !in_range) {
    return fields.Wrong(key, absl::StrCat("at most ", CellEnds().size(), " counts from 0 to 1e12"));
  }
  counts.resize(CellEnds().size());
  return counts;
}

}  // namespace

LearntSurvival::LearntSurvival() { Renew(&all_); }

void LearntSurvival::Add(const LearntEnd& end) {
  if (end.to <= end.from) return;
  base::MutexLock lock(&mutex_);
  ++ends_;
  AddTo(end, &all_);
  const bool fits = end.length_class.size() <= kMostNameBytes && !end.length_class.empty();
  auto found = classes_.find(end.length_class);
  if (found == classes_.end() && fits && classes_.size() < kMostClasses) {
    found = classes_.emplace(std::string(end.length_class), Curve()).first;
  }
  if (found != classes_.end()) AddTo(end, &found->second);
}

void LearntSurvival::AddTo(const LearntEnd& end, Curve* curve) {
  const auto& ends = CellEnds();
  curve->at_risk.resize(ends.size());
  curve->ended.resize(ends.size());
  for (double& count : curve->at_risk) count *= kForget;
  for (double& count : curve->ended) count *= kForget;
  curve->ends *= kForget;
  int64_t from = end.from;
  for (size_t cell = CellOf(int64_t{end.from} + 1); from < end.to; ++cell) {
    const bool last = cell + 1 == ends.size();
    const int64_t to = last ? end.to : std::min<int64_t>(end.to, ends[cell]);
    curve->at_risk[cell] += static_cast<double>(to - from);
    from = to;
  }
  if (end.natural) {
    curve->ended[CellOf(end.to)] += 1;
    curve->ends += 1;
  }
  Renew(curve);
}

// Steps at which nobody was watched have the hazard of all steps together, and so has, for the
// weight of one request, every other step.
void LearntSurvival::Renew(Curve* curve) {
  const auto& ends = CellEnds();
  curve->at_risk.resize(ends.size());
  curve->ended.resize(ends.size());
  double watched = 0, ended = 0;
  for (size_t cell = 0; cell < ends.size(); ++cell) {
    watched += curve->at_risk[cell];
    ended += curve->ended[cell];
  }
  const double mean = watched > 0 ? ended / watched : 0;
  curve->hazard_sums.resize(ends.size());
  curve->log_survivals.resize(ends.size());
  double sum = 0;
  for (size_t cell = 0; cell < ends.size(); ++cell) {
    const double hazard = (curve->ended[cell] + mean) / (curve->at_risk[cell] + 1);
    curve->log_survivals[cell] = std::log1p(-std::min(hazard, kMostHazard));
    const int32_t before = cell == 0 ? 0 : ends[cell - 1];
    sum -= curve->log_survivals[cell] * (ends[cell] - before);
    curve->hazard_sums[cell] = sum;
  }
}

double LearntSurvival::HazardUpTo(const Curve& curve, int64_t step) {
  if (step <= 0) return 0;
  const size_t cell = CellOf(step);
  return curve.hazard_sums[cell] +
         curve.log_survivals[cell] * static_cast<double>(CellEnds()[cell] - step);
}

const LearntSurvival::Curve* LearntSurvival::CurveFor(std::string_view length_class) const {
  // The first of kFewestEnds counts a little less than one when the last has come.
  constexpr double kEnough = kFewestEnds - 0.5;
  const auto found = classes_.find(length_class);
  if (found != classes_.end() && found->second.ends >= kEnough) return &found->second;
  return all_.ends >= kEnough ? &all_ : nullptr;
}

std::optional<EndChances> LearntSurvival::ChancesAfter(std::string_view length_class,
                                                       int32_t step) const {
  base::MutexLock lock(&mutex_);
  const Curve* const curve = CurveFor(length_class);
  if (curve == nullptr) return std::nullopt;
  const double until_now = HazardUpTo(*curve, step);
  EndChances chances{};
  for (size_t bin = 0; bin < kBins; ++bin) {
    chances[bin] = -std::expm1(until_now - HazardUpTo(*curve, int64_t{step} + kBinEnds[bin]));
  }
  return chances;
}

uint64_t LearntSurvival::ends() const {
  base::MutexLock lock(&mutex_);
  return ends_;
}

std::string LearntSurvival::ToJson(std::string_view model_fingerprint) const {
  nlohmann::json body = {{"model_fingerprint", std::string(model_fingerprint)}};
  // The engine waits for the lock, so it is held for a copy only.
  Curve all;
  std::map<std::string, Curve, std::less<>> classes;
  {
    base::MutexLock lock(&mutex_);
    all = all_;
    classes = classes_;
  }
  const auto json_of = [](const Curve& curve) {
    return nlohmann::json{{"at_risk", Rounded(curve.at_risk)}, {"ended", Rounded(curve.ended)}};
  };
  body["all"] = json_of(all);
  body["classes"] = nlohmann::json::object();
  for (const auto& [name, curve] : classes) body["classes"][name] = json_of(curve);
  return body.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

absl::Status LearntSurvival::FromJson(std::string_view body, std::string_view model_fingerprint) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("its body is not JSON");
  BATON_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, "body"));
  BATON_ASSIGN_OR_RETURN(const std::string fingerprint, fields.Text("model_fingerprint"));
  if (fingerprint != model_fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat("it was learnt from the model ", fingerprint,
                                                      "; this worker serves ",
                                                      std::string(model_fingerprint)));
  }
  const auto curve_of = [](const JsonFields& from) -> absl::StatusOr<Curve> {
    Curve curve;
    BATON_ASSIGN_OR_RETURN(curve.at_risk, Counts(from, "at_risk"));
    BATON_ASSIGN_OR_RETURN(curve.ended, Counts(from, "ended"));
    for (const double count : curve.ended) curve.ends += count;
    Renew(&curve);
    return curve;
  };
  BATON_ASSIGN_OR_RETURN(const JsonFields all, fields.Object("all"));
  BATON_ASSIGN_OR_RETURN(Curve all_curve, curve_of(all));
  BATON_ASSIGN_OR_RETURN(const JsonFields named, fields.Object("classes"));
  if (named.json().size() > kMostClasses) {
    return fields.Wrong("classes", absl::StrCat("at most ", kMostClasses, " classes"));
  }
  std::map<std::string, Curve, std::less<>> classes;
  for (const auto& [name, unused] : named.json().items()) {
    BATON_ASSIGN_OR_RETURN(const JsonFields one, named.Object(name));
    BATON_ASSIGN_OR_RETURN(classes[name], curve_of(one));
  }
  base::MutexLock lock(&mutex_);
  all_ = std::move(all_curve);
  classes_ = std::move(classes);
  return absl::OkStatus();
}

}  // namespace baton
