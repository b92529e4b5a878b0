// Settings from the configuration file.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"
#include "common/config/toml_file.h"
#include "common/config/usage_errors.h"

namespace baton {
namespace {

// Whatever takes --config may have a section in a configuration file: the servers, and the commands
// by their first word.
constexpr std::array<std::string_view, 16> kSections = {
    "router", "prefill", "decode", "serve", "generate", "chat",  "bench",   "batch",
    "plan",   "sim",     "probe",  "model", "eos",      "flags", "metrics", "version"};

// A section [tenant.NAME] of a configuration file says what `--tenant NAME:…` does.
constexpr char kTenantSection[] = "tenant";

bool IsOfATenant(const FileKey& key) {
  return !key.sections.empty() && key.sections.front() == kTenantSection;
}

// What stands at the top first, so that the command's own section wins; tenants last, because
// they add to what a list of them has.
int RankOf(const FileKey& key) {
  if (key.sections.empty()) return 0;
  return IsOfATenant(key) ? 2 : 1;
}

std::string Hyphenated(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// Whether `value`, as "x:weight=2,max-running=8", says the key of that tenant.
bool Says(const std::string& value, const std::string& tenant, const std::string& key) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(value, absl::MaxSplits(':', 1));
  if (parts.first != tenant) return false;
  const std::vector<std::string> settings = absl::StrSplit(parts.second, ',');
  return std::ranges::any_of(settings, [&](const std::string& setting) {
    return setting.substr(0, setting.find('=')) == key;
  });
}

// "b.toml:3: port"
std::string Place(const std::string& path, const FileKey& key, std::string_view what) {
  return absl::StrCat(path, ":", key.line, ": ", std::string(what));
}

absl::Status UnknownSection(const std::string& path, const FileKey& key) {
  const std::string nearest =
      NearestName(key.sections.front(), {kSections.begin(), kSections.end()});
  return UsageError(Place(path, key, "unknown section [" + absl::StrJoin(key.sections, ".") + "]"),
                    "sections are named like commands",
                    "[" + (nearest.empty() ? "serve" : nearest) + "]");
}

bool IsKnown(const std::vector<std::string>& sections) {
  return sections.size() == 1 &&
         std::find(kSections.begin(), kSections.end(), sections.front()) != kSections.end();
}

}  // namespace

void FlagSet::ReadFile(const std::string& path, RawValues* raw, UsageErrors* errors) const {
  auto keys = ReadTomlFile(path);
  errors->Add(keys.status());
  if (!keys.ok()) return;
  std::ranges::stable_sort(*keys, {}, RankOf);
  for (const FileKey& key : *keys) {
    errors->Add(IsOfATenant(key) ? ReadTenantKey(path, key, raw) : ReadFileKey(path, key, raw));
  }
}

absl::Status FlagSet::ReadTenantKey(const std::string& path, const FileKey& key,
                                    RawValues* raw) const {
  if (key.opens_section || Find(kTenantSection) == nullptr) return absl::OkStatus();
  if (key.sections.size() < 2 || key.values.size() != 1) {
    return UsageError(Place(path, key, "key '" + key.name + "' of section [tenant]"),
                      "expected sections of single tenants with one value for each key",
                      "[tenant.NAME] and max-running = 8");
  }
  Raw& entry = (*raw)[kTenantSection];
  if (entry.source > FlagSource::kFile) return absl::OkStatus();
  entry.source = FlagSource::kFile;
  // A name may have dots.
  const std::string name = absl::StrJoin(key.sections.begin() + 1, key.sections.end(), ".");
  const std::string setting = Hyphenated(key.name);
  entry.origin = Place(path, key, absl::StrCat("[tenant.", name, "]"));
  for (size_t i = 0; i < entry.values.size(); ++i) {
    if (!Says(entry.values[i], name, setting)) continue;
    return UsageError(absl::StrCat(entry.origin, " ", key.name),
                      "it is set twice, also as " + entry.origins[i], "only one of them");
  }
  entry.origins.push_back(entry.origin);
  entry.values.push_back(absl::StrCat(name, ":", setting, "=", key.values.front()));
  return absl::OkStatus();
}

absl::Status FlagSet::ReadFileKey(const std::string& path, const FileKey& key,
                                  RawValues* raw) const {
  const bool own = key.sections.size() == 1 && key.sections.front() == section_;
  if (key.opens_section) {
    return own || IsKnown(key.sections) ? absl::OkStatus() : UnknownSection(path, key);
  }
  if (!key.sections.empty() && !own) return absl::OkStatus();  // another command's, or told already
  const Flag* flag = Find(Hyphenated(key.name));
  if (flag == nullptr || flag->name == "config") {
    const std::string nearest = NearestName(Hyphenated(key.name), VisibleNames(""));
    return UsageError(Place(path, key, "unknown key '" + key.name + "'"),
                      "no setting of '" + section_ + "' has this name",
                      nearest.empty() ? program_ + " --help all" : nearest);
  }
  const std::string origin = Place(path, key, key.name);
  if (!key.not_text.empty()) {
    return UsageError(origin, "found " + key.not_text + ", expected text, numbers, true or false",
                      key.name + " = \"...\"");
  }
  if (key.is_list && !flag->repeatable) {
    return UsageError(origin, "found a list, expected one value",
                      "one value, in quotes if it holds spaces or commas");
  }
  Raw& entry = (*raw)[flag->name];
  if (entry.source > FlagSource::kFile) return absl::OkStatus();
  if (entry.source == FlagSource::kFile && entry.in_section == own) {
    return UsageError(origin, "it is set twice, also as " + entry.origin, "only one of them");
  }
  entry = {.source = FlagSource::kFile,
           .origin = origin,
           .values = key.values,
           .origins = std::vector<std::string>(key.values.size(), origin),
           .in_section = own};
  return absl::OkStatus();
}

}  // namespace baton
