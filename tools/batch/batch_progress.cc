#include "tools/batch/batch_progress.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace baton::batch {
namespace {

constexpr double kTerminalEveryS = 0.5;
constexpr double kPlainEveryS = 10;
// Before that, what is under way weighs too much.
constexpr double kForetellAfterS = 5;

// The longest lines go first, so it is costs and not lines that pass evenly.
double SecondsLeft(const BatchProgress& progress) {
  if (progress.elapsed_s < kForetellAfterS || progress.cost_done <= 0) return -1;
  return progress.elapsed_s * progress.cost_left / progress.cost_done;
}

}  // namespace

std::string TimeText(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
}

std::string ProgressText(const BatchProgress& progress) {
  const double share = progress.lines > 0 ? 100.0 * static_cast<double>(progress.done) /
                                                static_cast<double>(progress.lines)
                                          : 100;
  std::string text =
      absl::StrFormat("%d of %d lines (%.0f %%)  %d failed  %d under way", progress.done,
                      progress.lines, std::floor(share), progress.failed, progress.under_way);
  if (progress.elapsed_s > 0) {
    text += absl::StrFormat("  %.1f lines/s  %.0f tokens/s",
                            static_cast<double>(progress.done_now) / progress.elapsed_s,
                            static_cast<double>(progress.tokens) / progress.elapsed_s);
  }
  const double left_s = SecondsLeft(progress);
  if (left_s >= 0) text += "  " + TimeText(left_s) + " left";
  if (!progress.trouble.empty()) text += "  waiting: " + progress.trouble;
  return text;
}

ProgressLine::ProgressLine(std::FILE* out)
    : line_(out),
      every_s_(line_.on_terminal() ? kTerminalEveryS : kPlainEveryS),
      next_s_(every_s_) {}

void ProgressLine::Show(const BatchProgress& progress) {
  if (progress.elapsed_s < next_s_) return;
  next_s_ = progress.elapsed_s + every_s_;
  line_.Show(ProgressText(progress));
}

}  // namespace baton::batch
