#include "common/config/flag_types.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/numbers.h"
#include "common/config/units.h"

namespace baton {
namespace {

absl::Status Wrong(std::string_view found, std::string_view expected) {
  return absl::InvalidArgumentError("found '" + std::string(found) + "', expected " +
                                    std::string(expected));
}

absl::StatusOr<int64_t> ParseInt(std::string_view text, IntRange range) {
  const auto value = ParseNumber<int64_t>(text);
  if (value && *value >= range.min && *value <= range.max) return *value;
  return Wrong(text, absl::StrCat("an integer from ", range.min, " to ", range.max));
}

absl::StatusOr<double> ParseDouble(std::string_view text, DoubleRange range) {
  const auto value = ParseNumber<double>(text);  // NaN is in no range
  if (value && *value >= range.min && *value <= range.max) return *value;
  return Wrong(text, absl::StrCat("a number from ", range.min, " to ", range.max));
}

// A flag with one value, which `parse` turns into a StatusOr of what `*target` takes.
template <typename Target, typename Parse>
Flag Scalar(std::string name, std::string value, Target* target, Parse parse) {
  Flag flag;
  flag.name = std::move(name);
  flag.value = std::move(value);
  flag.set = [target, parse](const std::vector<std::string>& values) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(*target, parse(values.back()));
    return absl::OkStatus();
  };
  return flag;
}

template <typename T>
Flag OptionalInteger(std::string name, std::optional<T>* target, IntRange range) {
  Flag flag = Scalar(std::move(name), "N", target,
                     [range](const std::string& text) -> absl::StatusOr<std::optional<T>> {
                       BATON_ASSIGN_OR_RETURN(const int64_t value, ParseInt(text, range));
                       return static_cast<T>(value);
                     });
  flag.get = [target]() -> std::vector<std::string> {
    if (!*target) return {};
    return {std::to_string(**target)};
  };
  return flag;
}

// Whether `text` is "host:port", "[v6]:port" or "name:port" with a port that is not 0.
bool CanBeDialled(const std::string& text) {
  const size_t colon = text.rfind(':');
  const bool host = colon != std::string::npos && colon > 0 && text.find('/') == text.npos;
  return host && ParseInt(text.substr(colon + 1), {.min = 1, .max = 65535}).ok();
}

}  // namespace

namespace config_internal {

std::string JoinWords(const std::vector<std::string>& words, std::string_view separator) {
  std::string joined;
  for (const std::string& word : words) {
    if (!joined.empty()) joined += separator;
    joined += word;
  }
  return joined;
}

absl::Status WrongChoice(const std::string& found, const std::vector<std::string>& words) {
  return Wrong(found, (words.size() > 1 ? "one of " : "") + JoinWords(words, ", "));
}

}  // namespace config_internal

Flag IntFlag(std::string name, int32_t* target, IntRange range) {
  Flag flag = Scalar(std::move(name), "N", target,
                     [range](const std::string& text) -> absl::StatusOr<int32_t> {
                       BATON_ASSIGN_OR_RETURN(const int64_t value, ParseInt(text, range));
                       return static_cast<int32_t>(value);
                     });
  flag.get = [target] { return std::vector<std::string>{std::to_string(*target)}; };
  return flag;
}

Flag OptionalIntFlag(std::string name, std::optional<int32_t>* target, IntRange range) {
  return OptionalInteger(std::move(name), target, range);
}

Flag IntOrWordFlag(std::string name, std::optional<int32_t>* target, IntRange range,
                   std::string word) {
  const auto parse = [range,
                      word](const std::string& text) -> absl::StatusOr<std::optional<int32_t>> {
    if (text == word) return std::nullopt;
    const absl::StatusOr<int64_t> value = ParseInt(text, range);
    if (value.ok()) return static_cast<int32_t>(*value);
    return Wrong(text,
                 absl::StrCat("'", word, "' or an integer from ", range.min, " to ", range.max));
  };
  Flag flag = Scalar(std::move(name), absl::StrCat("N|", word), target, parse);
  flag.get = [target, word] {
    return std::vector<std::string>{*target ? std::to_string(**target) : word};
  };
  return flag;
}

Flag OptionalInt64Flag(std::string name, std::optional<int64_t>* target, IntRange range) {
  return OptionalInteger(std::move(name), target, range);
}

Flag OptionalUint64Flag(std::string name, std::optional<uint64_t>* target) {
  Flag flag = Scalar(std::move(name), "N", target,
                     [](const std::string& text) -> absl::StatusOr<std::optional<uint64_t>> {
                       if (const auto value = ParseNumber<uint64_t>(text)) return value;
                       return Wrong(text, "an integer from 0 to 2^64-1");
                     });
  flag.get = [target]() -> std::vector<std::string> {
    if (!*target) return {};
    return {std::to_string(**target)};
  };
  return flag;
}

Flag OptionalFloatFlag(std::string name, std::optional<float>* target) {
  Flag flag = Scalar(std::move(name), "X", target,
                     [](const std::string& text) -> absl::StatusOr<std::optional<float>> {
                       // The server judges the range, NaN and infinity included.
                       if (const auto value = ParseNumber<float>(text)) return value;
                       return Wrong(text, "a number");
                     });
  flag.get = [target]() -> std::vector<std::string> {
    if (!*target) return {};
    return {FormatDouble(**target)};
  };
  return flag;
}

Flag OptionalDoubleFlag(std::string name, std::optional<double>* target, DoubleRange range) {
  Flag flag = Scalar(std::move(name), "X", target,
                     [range](const std::string& text) -> absl::StatusOr<std::optional<double>> {
                       BATON_ASSIGN_OR_RETURN(const double value, ParseDouble(text, range));
                       return value;
                     });
  flag.get = [target]() -> std::vector<std::string> {
    if (!*target) return {};
    return {FormatDouble(**target)};
  };
  return flag;
}

Flag DoubleFlag(std::string name, double* target, DoubleRange range) {
  Flag flag = Scalar(std::move(name), "X", target,
                     [range](const std::string& text) { return ParseDouble(text, range); });
  flag.get = [target]() -> std::vector<std::string> { return {FormatDouble(*target)}; };
  return flag;
}

Flag TextFlag(std::string name, std::string* target) {
  Flag flag = Scalar(std::move(name), "TEXT", target,
                     [](const std::string& text) -> absl::StatusOr<std::string> { return text; });
  flag.get = [target]() -> std::vector<std::string> {
    if (target->empty()) return {};
    return {*target};
  };
  return flag;
}

Flag InputFlag(std::string name, std::string* target, std::string value) {
  Flag flag = Valued(TextFlag(std::move(name), target), std::move(value));
  flag.path = PathUse::kInput;
  return flag;
}

Flag TextListFlag(std::string name, std::vector<std::string>* target) {
  Flag flag;
  flag.name = std::move(name);
  flag.value = "TEXT";
  flag.repeatable = true;
  flag.set = [target](const std::vector<std::string>& values) {
    *target = values;
    return absl::OkStatus();
  };
  flag.get = [target] { return *target; };
  return flag;
}

Flag IntListFlag(std::string name, std::vector<int32_t>* target) {
  Flag flag;
  flag.name = std::move(name);
  flag.value = "N";
  flag.repeatable = true;
  flag.set = [target](const std::vector<std::string>& values) -> absl::Status {
    target->clear();
    for (const std::string& text : values) {
      BATON_ASSIGN_OR_RETURN(const int64_t value, ParseInt(text, {.min = INT32_MIN}));
      target->push_back(static_cast<int32_t>(value));
    }
    return absl::OkStatus();
  };
  flag.get = [target] {
    std::vector<std::string> texts;
    for (const int32_t value : *target) texts.push_back(std::to_string(value));
    return texts;
  };
  return flag;
}

Flag CommaListFlag(std::string name, std::vector<std::string>* target) {
  Flag flag = TextListFlag(std::move(name), target);
  flag.value = "A,B,...";
  flag.set = [target](const std::vector<std::string>& values) -> absl::Status {
    target->clear();
    for (const std::string& value : values) {
      for (const auto& part : absl::StrSplit(value, ',', absl::SkipEmpty())) {
        target->emplace_back(part.data(), part.size());
      }
    }
    return absl::OkStatus();
  };
  return flag;
}

Flag SwitchFlag(std::string name, bool* target) {
  Flag flag;
  flag.name = std::move(name);
  flag.set = [target](const std::vector<std::string>& values) -> absl::Status {
    constexpr std::array<std::string_view, 4> kTrue = {"true", "on", "yes", "1"};
    constexpr std::array<std::string_view, 4> kFalse = {"false", "off", "no", "0"};
    const std::string& value = values.back();
    const bool is_true = std::find(kTrue.begin(), kTrue.end(), value) != kTrue.end();
    if (!is_true && std::find(kFalse.begin(), kFalse.end(), value) == kFalse.end()) {
      return Wrong(value, "true or false");
    }
    *target = is_true;
    return absl::OkStatus();
  };
  flag.get = [target] { return std::vector<std::string>{*target ? "true" : "false"}; };
  return flag;
}

Flag SizeFlag(std::string name, int64_t* target, IntRange range) {
  Flag flag = Scalar(std::move(name), "SIZE", target,
                     [range](const std::string& text) -> absl::StatusOr<int64_t> {
                       BATON_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(text));
                       if (bytes >= range.min && bytes <= range.max) return bytes;
                       return Wrong(text, absl::StrCat("at least ", FormatSize(range.min),
                                                       " and at most ", FormatSize(range.max)));
                     });
  flag.get = [target] { return std::vector<std::string>{FormatSize(*target)}; };
  return flag;
}

Flag OptionalSizeFlag(std::string name, std::optional<int64_t>* target, IntRange range) {
  Flag flag = Scalar(std::move(name), "SIZE", target,
                     [range](const std::string& text) -> absl::StatusOr<std::optional<int64_t>> {
                       BATON_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(text));
                       if (bytes >= range.min && bytes <= range.max) return bytes;
                       return Wrong(text, absl::StrCat("at least ", FormatSize(range.min),
                                                       " and at most ", FormatSize(range.max)));
                     });
  flag.get = [target]() -> std::vector<std::string> {
    if (!*target) return {};
    return {FormatSize(**target)};
  };
  return flag;
}

Flag DurationFlag(std::string name, base::Duration* target, std::chrono::milliseconds unit) {
  Flag flag = Scalar(std::move(name), unit == std::chrono::milliseconds(1) ? "MS" : "TIME", target,
                     [unit](const std::string& text) { return ParseDuration(text, unit); });
  flag.get = [target] { return std::vector<std::string>{FormatDuration(*target)}; };
  return flag;
}

Flag With(Flag flag, std::string group, std::string help) {
  flag.group = std::move(group);
  flag.help = std::move(help);
  return flag;
}

Flag Valued(Flag flag, std::string value) {
  flag.value = std::move(value);
  return flag;
}

Flag Common(Flag flag) {
  flag.common = true;
  return flag;
}

Flag PortFlag(std::string name, int32_t* target) {
  Flag flag = IntFlag(std::move(name), target, {.min = 0, .max = 65535});
  flag.value = "PORT";
  flag.is_port = true;
  return flag;
}

Flag AddressFlag(std::string name, std::string* target) {
  Flag flag = TextFlag(std::move(name), target);
  flag.value = "HOST:PORT";
  flag.set = [target](const std::vector<std::string>& values) -> absl::Status {
    const std::string& text = values.back();
    if (!CanBeDialled(text)) return Wrong(text, "host:port that others can dial, without a scheme");
    *target = text;
    return absl::OkStatus();
  };
  return flag;
}

Flag AddressListFlag(std::string name, std::vector<std::string>* target) {
  Flag flag = CommaListFlag(std::move(name), target);
  flag.set = [target, split = std::move(flag.set)](const std::vector<std::string>& values) {
    BATON_RETURN_IF_ERROR(split(values));
    for (const std::string& text : *target) {
      constexpr std::string_view kDns = "dns:///";
      const bool named = text.starts_with(kDns);
      if (!CanBeDialled(named ? text.substr(kDns.size()) : text)) {
        return Wrong(text, "host:port of each worker, or the port behind a dns name");
      }
    }
    return absl::OkStatus();
  };
  return flag;
}

}  // namespace baton
