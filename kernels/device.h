#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::kernels {

// What a backend computes on. The reference is the scalar oracle that the other two are compared
// with; it runs on the host's processor, slowly.
enum class Device : uint8_t { kCpu, kCuda, kReference };

// As on the command line: "cpu", "cuda", "reference".
constexpr std::string_view Name(Device device) {
  switch (device) {
    case Device::kCpu:
      return "cpu";
    case Device::kCuda:
      return "cuda";
    case Device::kReference:
      return "reference";
  }
  return "";
}

// The device of that Name; empty for any other text.
constexpr std::optional<Device> ParseDevice(std::string_view name) {
  for (const Device device : {Device::kCpu, Device::kCuda, Device::kReference}) {
    if (name == Name(device)) return device;
  }
  return std::nullopt;
}

// Whether buffers of such a device lie apart from the host's memory.
constexpr bool HasOwnMemory(Device device) { return device == Device::kCuda; }

}  // namespace baton::kernels
