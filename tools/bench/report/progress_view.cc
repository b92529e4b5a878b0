#include "tools/bench/report/progress_view.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace baton::bench {
namespace {

constexpr double kTerminalEveryS = 0.25;
constexpr double kPlainEveryS = 5;

}  // namespace

std::string ProgressText(const std::string& label, const LoadProgress& progress,
                         double tokens_per_s) {
  const int64_t under_way = progress.sent - progress.done - progress.failed;
  std::string text = absl::StrFormat(
      "%s  %.1f s  %d of %d done, %d under way, %d failed  %.0f tok/s", label, progress.elapsed_s,
      progress.done, progress.planned, under_way, progress.failed, tokens_per_s);
  if (progress.last_ttft_ms > 0) text += absl::StrFormat("  TTFT %.0f ms", progress.last_ttft_ms);
  return text;
}

ProgressView::ProgressView(std::FILE* out) : line_(out) {}

void ProgressView::Begin(std::string label) {
  label_ = std::move(label);
  last_ = {};
  last_written_s_ = 0;
  last_tokens_ = 0;
  tokens_per_s_ = 0;
}

void ProgressView::Update(const LoadProgress& progress) {
  last_ = progress;
  const double since = progress.elapsed_s - last_written_s_;
  if (since < (line_.on_terminal() ? kTerminalEveryS : kPlainEveryS)) return;
  tokens_per_s_ = static_cast<double>(progress.output_tokens - last_tokens_) / since;
  last_written_s_ = progress.elapsed_s;
  last_tokens_ = progress.output_tokens;
  line_.Show(ProgressText(label_, progress, tokens_per_s_));
}

void ProgressView::End() {
  const double rate =
      last_.elapsed_s > 0 ? static_cast<double>(last_.output_tokens) / last_.elapsed_s : 0;
  line_.Say(ProgressText(label_, last_, rate));
}

}  // namespace baton::bench
