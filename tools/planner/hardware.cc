#include "tools/planner/hardware.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/formats/shallow_json.h"
#include "nlohmann/json.hpp"

namespace baton::planner {
namespace {

constexpr char kSchema[] = "baton.hardware/1";

absl::Status BadHardware(const std::string& where, const std::string& found,
                         const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": found ", found, "; expected ", expected,
      "; deploy/hardware has files to begin with, and docs/planner.md explains every key"));
}

// A number of an object and the bounds within which it makes sense.
struct NumberKey {
  const char* key;
  double* target;
  double least;  // allowed
  double most;   // allowed
};

absl::Status ReadNumber(const nlohmann::json& object, const NumberKey& number,
                        const std::string& where) {
  const auto found = object.find(number.key);
  const std::string place = absl::StrCat(where, ".", number.key);
  const std::string expected = absl::StrCat("a number from ", number.least, " to ", number.most);
  if (found == object.end()) return BadHardware(where, absl::StrCat("no ", number.key), expected);
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!found->is_number() || !(value >= number.least && value <= number.most)) {
    return BadHardware(place, found->dump(), expected);
  }
  *number.target = value;
  return absl::OkStatus();
}

// Whether all keys of the object are known.
absl::Status CheckKeys(const nlohmann::json& object, const std::set<std::string>& known,
                       const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) {
      return BadHardware(where, absl::StrCat("the unknown key ", key), absl::StrJoin(known, ", "));
    }
  }
  return absl::OkStatus();
}

// An object in which exactly these numbers stand.
absl::Status ReadNumbers(const nlohmann::json& object, const std::vector<NumberKey>& numbers,
                         const std::string& where) {
  if (!object.is_object()) return BadHardware(where, object.dump(), "an object");
  std::set<std::string> known;
  for (const NumberKey& number : numbers) known.insert(number.key);
  BATON_RETURN_IF_ERROR(CheckKeys(object, known, where));
  for (const NumberKey& number : numbers) {
    BATON_RETURN_IF_ERROR(ReadNumber(object, number, where));
  }
  return absl::OkStatus();
}

absl::Status ReadFlops(const nlohmann::json& file, const std::string& where, Hardware* hardware) {
  const auto flops = file.find("flops");
  if (flops == file.end() || !flops->is_object() || flops->empty()) {
    return BadHardware(where, flops == file.end() ? "no flops" : "flops: " + flops->dump(),
                       "an object of operations per second by type");
  }
  BATON_RETURN_IF_ERROR(
      CheckKeys(*flops, {"float32", "bfloat16", "float16", "fp8"}, where + ".flops"));
  for (const auto& [type, value] : flops->items()) {
    BATON_RETURN_IF_ERROR(
        ReadNumber(*flops, {type.c_str(), &hardware->flops[type], 1e6, 1e20}, where + ".flops"));
  }
  return absl::OkStatus();
}

// What may be left out.
absl::Status ReadOptional(const nlohmann::json& file, const std::string& where,
                          Hardware* hardware) {
  if (file.contains("memory_share")) {
    BATON_RETURN_IF_ERROR(
        ReadNumber(file, {"memory_share", &hardware->memory_share, 0.01, 1}, where));
  }
  if (file.contains("link")) {
    hardware->link.emplace();
    BATON_RETURN_IF_ERROR(ReadNumbers(file["link"],
                                      {{"bytes_per_s", &hardware->link->bytes_per_s, 1e3, 1e15},
                                       {"latency_us", &hardware->link->latency_us, 0, 1e6}},
                                      where + ".link"));
  }
  if (file.contains("power")) {
    hardware->power.emplace();
    BATON_RETURN_IF_ERROR(ReadNumbers(file["power"],
                                      {{"idle_watts", &hardware->power->idle_watts, 0, 1e6},
                                       {"busy_watts", &hardware->power->busy_watts, 0, 1e6}},
                                      where + ".power"));
  }
  if (file.contains("price_per_hour")) {
    double price = 0;
    BATON_RETURN_IF_ERROR(ReadNumber(file, {"price_per_hour", &price, 0, 1e6}, where));
    hardware->price_per_hour = price;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Hardware> ParseHardware(const std::string& text, const std::string& where) {
  const nlohmann::json file = ParseShallow(text).value;
  if (!file.is_object() || file.value("schema", nlohmann::json()) != kSchema) {
    return BadHardware(where, "no description of a device",
                       absl::StrCat("a JSON object with \"schema\": \"", kSchema, "\""));
  }
  BATON_RETURN_IF_ERROR(
      CheckKeys(file,
                {"schema", "name", "source", "device", "devices", "memory_bytes", "memory_share",
                 "memory_bandwidth", "bandwidth_share", "flops", "flops_share", "step_us",
                 "handoff_bytes_per_s", "link", "power", "price_per_hour"},
                where));
  Hardware hardware;
  const auto name = file.find("name");
  if (name == file.end() || !name->is_string()) {
    return BadHardware(where, name == file.end() ? "no name" : "name: " + name->dump(), "a text");
  }
  hardware.name = name->get<std::string>();
  const nlohmann::json device = file.value("device", nlohmann::json());
  if (device != "cuda" && device != "cpu") {
    return BadHardware(where, device.is_null() ? "no device" : "device: " + device.dump(),
                       "cuda or cpu");
  }
  hardware.device = device.get<std::string>();
  double devices = 0;
  for (const NumberKey& number :
       std::vector<NumberKey>{{"devices", &devices, 1, 64},
                              {"memory_bytes", &hardware.memory_bytes, 1e6, 1e15},
                              {"memory_bandwidth", &hardware.memory_bandwidth, 1e6, 1e16},
                              {"bandwidth_share", &hardware.bandwidth_share, 0.01, 1},
                              {"flops_share", &hardware.flops_share, 0.01, 1},
                              {"step_us", &hardware.step_us, 0, 1e6},
                              {"handoff_bytes_per_s", &hardware.handoff_bytes_per_s, 1e3, 1e15}}) {
    BATON_RETURN_IF_ERROR(ReadNumber(file, number, where));
  }
  hardware.devices = static_cast<int32_t>(devices);
  if (hardware.devices != devices) {
    return BadHardware(where + ".devices", file["devices"].dump(), "a whole number");
  }
  BATON_RETURN_IF_ERROR(ReadFlops(file, where, &hardware));
  BATON_RETURN_IF_ERROR(ReadOptional(file, where, &hardware));
  return hardware;
}

absl::StatusOr<Hardware> ReadHardware(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  // A pipe would wait for somebody who writes, and a device may have no end.
  if (!error && !std::filesystem::is_regular_file(found)) {
    return BadHardware(path, "a folder, a pipe or a device", "a file");
  }
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read the hardware file ", path, ": ",
                                                   std::strerror(errno),
                                                   "; deploy/hardware has files to begin with"));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseHardware(text, path);
}

}  // namespace baton::planner
