#include "common/eos/log_upkeep.h"

#include "common/base/log.h"

namespace baton {
namespace {

// What holds while a step fails.
std::string_view Meanwhile(UpkeepStep step) {
  switch (step) {
    case UpkeepStep::kRotate:
      return "rows go on into the same file, which grows beyond its size";
    case UpkeepStep::kCompress:
      return "the file stays as it is, and is tried again by the next start";
    case UpkeepStep::kRemove:
      return "there are more files than were asked for";
  }
  return "";
}

}  // namespace

std::string_view UpkeepStepName(UpkeepStep step) {
  switch (step) {
    case UpkeepStep::kRotate:
      return "rotate";
    case UpkeepStep::kCompress:
      return "compress";
    case UpkeepStep::kRemove:
      return "remove";
  }
  return "";
}

void LogUpkeep::Note(UpkeepStep step, const absl::Status& status) {
  Count& count = counts_[static_cast<size_t>(step)];
  if (status.ok()) {
    count.told = false;
    return;
  }
  ++count.failures;
  if (count.told.exchange(true)) return;
  spdlog::warn(
      "EOS log {}: cannot {} files: {}; {}. Give the disk room and the folder to this user; "
      "requests are served all the same",
      path_, std::string(UpkeepStepName(step)), std::string(status.message()),
      std::string(Meanwhile(step)));
}

}  // namespace baton
