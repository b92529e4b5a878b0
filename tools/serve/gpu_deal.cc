#include "tools/serve/gpu_deal.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

constexpr std::string_view kNodePrefix = "nvidia";

// Whether a device file is that of a GPU: nvidia0 is, nvidiactl and nvidia-uvm are not.
bool IsGpuNode(const std::string& name) {
  return name.starts_with(kNodePrefix) && name.size() > kNodePrefix.size() &&
         std::all_of(name.begin() + kNodePrefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::vector<std::string> VisibleGpus(const char* cuda_visible_devices,
                                     const std::string& device_folder) {
  if (cuda_visible_devices != nullptr) {
    return absl::StrSplit(cuda_visible_devices, ',', absl::SkipWhitespace());
  }
  std::vector<std::string> gpus;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(device_folder, error)) {
    // A container's nodes may have any numbers; CUDA counts those that are there.
    if (IsGpuNode(entry.path().filename().string())) gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

std::vector<GpuShare> DealGpus(const std::vector<std::string>& gpus, int workers, int per_worker) {
  std::vector<GpuShare> shares(static_cast<size_t>(workers));
  if (gpus.empty()) {
    for (GpuShare& share : shares) share.sharers = workers;
    return shares;
  }
  const int hands = static_cast<int>(gpus.size()) / per_worker;
  if (hands == 0) return shares;
  for (int worker = 0; worker < workers; ++worker) {
    const int hand = worker % hands;
    const auto first = gpus.begin() + hand * per_worker;
    GpuShare& share = shares[static_cast<size_t>(worker)];
    share.visible = absl::StrJoin(first, first + per_worker, ",");
    share.sharers = workers / hands + (hand < workers % hands ? 1 : 0);
  }
  return shares;
}

}  // namespace baton
