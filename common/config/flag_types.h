#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "common/config/options.h"

// One maker per kind of value. Each returns a Flag whose set/get read and write `target`.
namespace baton {

// The least and the greatest value that a flag takes, both allowed.
struct IntRange {
  int64_t min = 0;
  int64_t max = INT32_MAX;
};
struct DoubleRange {
  double min = 0;
  double max = 0;
};

Flag IntFlag(std::string name, int32_t* target, IntRange range);
Flag OptionalIntFlag(std::string name, std::optional<int32_t>* target, IntRange range);
// A number, or `word`, which leaves the target empty.
Flag IntOrWordFlag(std::string name, std::optional<int32_t>* target, IntRange range,
                   std::string word);
Flag OptionalInt64Flag(std::string name, std::optional<int64_t>* target, IntRange range);
Flag OptionalUint64Flag(std::string name, std::optional<uint64_t>* target);
Flag OptionalFloatFlag(std::string name, std::optional<float>* target);
// The value is finite and inside the range.
Flag OptionalDoubleFlag(std::string name, std::optional<double>* target, DoubleRange range);
Flag DoubleFlag(std::string name, double* target, DoubleRange range);
Flag TextFlag(std::string name, std::string* target);
// The path of a file that is read, "FILE". Its placeholder may name words that are no path, too, as
// "auto|off|FILE".
Flag InputFlag(std::string name, std::string* target, std::string value = "FILE");
// May be given several times, with one value each time.
Flag TextListFlag(std::string name, std::vector<std::string>* target);
Flag IntListFlag(std::string name, std::vector<int32_t>* target);
// May be given several times, each time with values separated by commas.
Flag CommaListFlag(std::string name, std::vector<std::string>* target);
// Takes `--name`, `--no-name` and `--name=false`.
Flag SwitchFlag(std::string name, bool* target);
// A number of bytes: "1048576", "512MiB", "0.5GiB".
Flag SizeFlag(std::string name, int64_t* target, IntRange range);
Flag OptionalSizeFlag(std::string name, std::optional<int64_t>* target, IntRange range);
// A time: "30s", "500ms", "2m". A bare number counts in `unit`.
Flag DurationFlag(std::string name, base::Duration* target, std::chrono::milliseconds unit);
Flag PortFlag(std::string name, int32_t* target);
// A HOST:PORT that others can dial: both parts are there and the port is not 0. An empty value is
// refused too.
Flag AddressFlag(std::string name, std::string* target);
// A list of such addresses separated by commas, each perhaps with "dns:///" in front.
Flag AddressListFlag(std::string name, std::vector<std::string>* target);

// One of a closed set of words.
template <typename T>
Flag ChoiceFlag(std::string name, T* target, Choices<T> choices);
// One of the words that options.h has for a T.
template <typename T>
Flag ChoiceFlag(std::string name, T* target) {
  return ChoiceFlag(std::move(name), target, ChoicesOf(T{}));
}

// These add to a flag what its help says: the group and the text, the placeholder of the value, and
// that it belongs into the short help.
Flag With(Flag flag, std::string group, std::string help);
Flag Valued(Flag flag, std::string value);
Flag Common(Flag flag);

// --- implementation of the template ---

namespace config_internal {
std::string JoinWords(const std::vector<std::string>& words, std::string_view separator);
absl::Status WrongChoice(const std::string& found, const std::vector<std::string>& words);
}  // namespace config_internal

template <typename T>
Flag ChoiceFlag(std::string name, T* target, Choices<T> choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  Flag flag;
  flag.name = std::move(name);
  flag.value = config_internal::JoinWords(words, "|");
  flag.set = [=](const std::vector<std::string>& values) -> absl::Status {
    for (const auto& [word, value] : choices) {
      if (word == values.back()) {
        *target = value;
        return absl::OkStatus();
      }
    }
    return config_internal::WrongChoice(values.back(), words);
  };
  flag.get = [=]() -> std::vector<std::string> {
    for (const auto& [word, value] : choices) {
      if (value == *target) return {word};
    }
    return {};
  };
  return flag;
}

}  // namespace baton
