#include "tools/eos/stats_text.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/shown_text.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<FinishReason, 9> kReasons = {
    FinishReason::kStopEos,     FinishReason::kStopToken, FinishReason::kStopString,
    FinishReason::kStopGrammar, FinishReason::kLength,    FinishReason::kRunaway,
    FinishReason::kAborted,     FinishReason::kDeadline,  FinishReason::kError};

std::string CountLine(std::string_view name, int64_t count, std::string_view note = "") {
  return absl::StrFormat("%-28s%10d%s\n", std::string(name), count,
                         note.empty() ? "" : "   " + std::string(note));
}

std::string EndLines(const LogStats& stats) {
  std::string text;
  const auto all = static_cast<double>(stats.ended(FinishReason::kNone));
  for (const FinishReason reason : kReasons) {
    const int64_t count = stats.ended(reason);
    if (count == 0) continue;
    text += CountLine("  " + std::string(FinishReasonName(reason)), count,
                      absl::StrFormat("%.1f%%", 100 * static_cast<double>(count) / all));
  }
  return text;
}

std::string LengthLine(std::string_view name, const Lengths& lengths) {
  return absl::StrFormat("%-28s%10.1f%10d%10d%10d%10.0f\n", std::string(name),
                         lengths.moments().mean(), lengths.Quantile(0.5), lengths.Quantile(0.9),
                         lengths.Quantile(0.99), lengths.moments().max());
}

std::string ProbabilityLine(std::string_view name, const Probabilities& probabilities) {
  return absl::StrFormat("%-28s%10.3g%10.3g%10.3g%10.3g%10.3g\n", std::string(name),
                         probabilities.moments().mean(), probabilities.Quantile(0.5),
                         probabilities.Quantile(0.9), probabilities.Quantile(0.99),
                         probabilities.moments().max());
}

std::string MeanLine(std::string_view name, const MeanAndMax& figures) {
  return absl::StrFormat("%-28s%10.3g%40.3g\n", std::string(name), figures.mean(), figures.max());
}

Json JsonOf(const Lengths& lengths) {
  return {{"mean", lengths.moments().mean()},
          {"p50", lengths.Quantile(0.5)},
          {"p90", lengths.Quantile(0.9)},
          {"p99", lengths.Quantile(0.99)},
          {"max", static_cast<int64_t>(lengths.moments().max())}};
}

Json JsonOf(const Probabilities& probabilities) {
  return {{"mean", probabilities.moments().mean()}, {"p10", probabilities.Quantile(0.1)},
          {"p50", probabilities.Quantile(0.5)},     {"p90", probabilities.Quantile(0.9)},
          {"p99", probabilities.Quantile(0.99)},    {"max", probabilities.moments().max()}};
}

Json JsonOf(const MeanAndMax& figures) {
  return {{"mean", figures.mean()}, {"max", figures.max()}};
}

}  // namespace

std::string StatsText(const LogStats& stats) {
  std::string text = CountLine("logs", stats.logs()) + CountLine("rows", stats.rows()) +
                     CountLine("requests", stats.requests());
  text += EndLines(stats) + CountLine("  open", stats.open(), "no last row");
  text +=
      CountLine("natural", stats.natural(), "ended by EOS, or would have if it were not ignored") +
      CountLine("censored", stats.censored(), "ended otherwise: at least this long") +
      CountLine("runaways", stats.runaways(),
                "ended as such, or ran to their limit and beyond 99 of 100 natural answers");
  absl::StrAppendFormat(&text, "\n%-28s%10s%10s%10s%10s%10s\n", "", "mean", "p50", "p90", "p99",
                        "max");
  text += LengthLine("output_length", stats.lengths()) +
          LengthLine("  natural", stats.natural_lengths()) +
          ProbabilityLine("eos_prob at EOS", stats.prob_at_stop()) +
          ProbabilityLine("  mean of a request", stats.mean_probs()) +
          ProbabilityLine("  max of a request", stats.max_probs()) +
          MeanLine("  all rows", stats.probs()) + MeanLine("entropy", stats.entropies());
  if (stats.longest().tokens == 0) return text;
  return text + absl::StrFormat("\nlongest: %s, %d tokens, %s\n",
                                ShownText(stats.longest().request_id), stats.longest().tokens,
                                std::string(FinishReasonName(stats.longest().reason)));
}

std::string StatsJson(const LogStats& stats) {
  Json ended = Json::object();
  for (const FinishReason reason : kReasons) {
    ended[std::string(FinishReasonName(reason))] = stats.ended(reason);
  }
  Json longest = nullptr;
  if (stats.longest().tokens > 0) {
    longest = {{"request_id", stats.longest().request_id},
               {"tokens", stats.longest().tokens},
               {"finish_reason", FinishReasonName(stats.longest().reason)}};
  }
  const Json json = {{"requests", stats.requests()},
                     {"rows", stats.rows()},
                     {"unreadable", stats.unreadable()},
                     {"ended", std::move(ended)},
                     {"open", stats.open()},
                     {"natural", stats.natural()},
                     {"censored", stats.censored()},
                     {"output_length", JsonOf(stats.lengths())},
                     {"natural_length", JsonOf(stats.natural_lengths())},
                     {"eos_prob_at_stop", JsonOf(stats.prob_at_stop())},
                     {"request_mean_eos_prob", JsonOf(stats.mean_probs())},
                     {"request_max_eos_prob", JsonOf(stats.max_probs())},
                     {"eos_prob", JsonOf(stats.probs())},
                     {"entropy", JsonOf(stats.entropies())},
                     {"longest", std::move(longest)},
                     {"runaways", stats.runaways()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace baton
