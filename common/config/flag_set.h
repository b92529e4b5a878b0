#pragma once

#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace baton {

struct FileKey;
class UsageErrors;

// What a command does with the path that is a setting's value.
enum class PathUse {
  kNone,    // it is no path, or may lead nowhere
  kInput,   // a file that is read
  kModel,   // a model directory, or a GGUF file
  kOutput,  // a file that is made in a folder that is there
};

// One setting of a command. `name` is spelled as in --name; BATON_NAME in the environment and
// `name` (or name_with_underscores) in the configuration file are derived from it.
struct Flag {
  std::string name;
  std::string value;  // of the help: "N", "SIZE", "auto|avx512"; empty for a switch
  std::string help;
  std::string group;
  std::vector<std::string> aliases;
  std::string exclusive_with;  // the name of a flag that must not be given beside this one
  bool repeatable = false;
  bool common = false;      // in the short help
  bool hidden = false;      // in no help
  bool positional = false;  // given by its place, not by --name
  bool required = false;
  PathUse path = PathUse::kNone;
  bool is_port = false;  // ignore tcp://… in the environment, as Kubernetes service links set it

  // Takes the values in the order given; a switch gets one, "true" or "false". An error says what
  // was found and what was expected.
  std::function<absl::Status(const std::vector<std::string>&)> set;
  // The value now, as it would be given; several for a list.
  std::function<std::vector<std::string>()> get;
};

// Where the value of a setting came from.
enum class FlagSource { kDefault, kFile, kEnvironment, kCommandLine };

// The settings of one command: flags over BATON_* environment over --config FILE.toml over
// defaults.
//
// In the file, which is TOML, keys at the top hold for every command and must be known; keys in a
// section named like a command ([router], [decode], [serve]) hold for that command only. A section
// [tenant.NAME] is for the commands that take --tenant.
class FlagSet {
 public:
  using Environment = std::map<std::string, std::string>;

  // `program` as typed ("baton-decode", "baton serve"); `section` as in the file ("decode").
  FlagSet(std::string program, std::string section, std::string description);
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  void Add(Flag flag);
  // `check` runs after every value was set. It is meant for conditions over several settings.
  void AddCheck(std::function<absl::Status()> check) { checks_.push_back(std::move(check)); }
  void ClearChecks() { checks_.clear(); }
  // A flag that other programs have and this one has not: an error says what to type `instead`.
  void AddForeign(std::string name, std::string instead) {
    foreign_[std::move(name)] = std::move(instead);
  }
  // Takes a flag out again, or gives access to change its help or group; it must be there.
  void Remove(std::string_view name);
  Flag& Edit(std::string_view name);

  // Reads all sources and sets every target. INVALID_ARGUMENT says of everything that is wrong, on
  // a line each: what, why, and what to type next. Of the targets some may be set then.
  absl::Status Parse(const std::vector<std::string>& arguments, const Environment& environment);

  // What the last Parse found that is no error but hardly meant: one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Parse with the process's environment, for a main. The result is empty when the program should
  // go on; else the number to exit with: 0 after --help, 2 after an error, both printed. Warnings
  // go to stderr.
  std::optional<int> ParseOrExit(int argc, const char* const* argv);
  std::optional<int> ParseOrExit(const std::vector<std::string>& arguments);

  // The help text: the common flags only, or all of them, by group.
  std::string Help(bool all) const;

  const std::vector<Flag>& flags() const { return flags_; }
  FlagSource SourceOf(std::string_view name) const;
  bool Given(std::string_view name) const { return SourceOf(name) != FlagSource::kDefault; }
  const std::string& program() const { return program_; }

  static Environment ProcessEnvironment();

 private:
  // What one source said about a flag, as text that nobody has parsed yet.
  struct Raw {
    FlagSource source = FlagSource::kDefault;
    std::string origin;  // as in messages: "--port", "BATON_PORT", "b.toml:3: port"
    std::vector<std::string> values;
    std::vector<std::string> origins = {};  // of a file: those of the single values
    bool in_section = false;                // of a file: in the command's own section
  };
  using RawValues = std::map<std::string, Raw, std::less<>>;  // by flag name

  void ReadCommandLine(const std::vector<std::string>& arguments, RawValues* raw,
                       UsageErrors* errors);
  void CheckRemaining(const std::vector<std::string>& remaining, UsageErrors* errors) const;
  void ReadEnvironment(const Environment& environment, RawValues* raw);
  void ReadFile(const std::string& path, RawValues* raw, UsageErrors* errors) const;
  absl::Status ReadFileKey(const std::string& path, const FileKey& key, RawValues* raw) const;
  // A key in a section [tenant.NAME] is one more value of the flag `tenant`.
  absl::Status ReadTenantKey(const std::string& path, const FileKey& key, RawValues* raw) const;
  void DropExcluded(RawValues* raw, UsageErrors* errors) const;
  void CheckRequired(const RawValues& raw, UsageErrors* errors) const;
  void Apply(const RawValues& raw, UsageErrors* errors);
  // The command and its arguments, as they are typed.
  std::string Usage() const;
  const Flag* Find(std::string_view name_or_alias) const;
  std::vector<std::string> VisibleNames(std::string_view prefix) const;

  std::string program_;
  std::string section_;
  std::string description_;
  std::vector<Flag> flags_;
  std::vector<std::function<absl::Status()>> checks_;
  std::map<std::string, std::string, std::less<>> foreign_;  // what to type instead, by name
  std::map<std::string, FlagSource, std::less<>> sources_;
  std::vector<std::string> warnings_;
  std::string config_file_;  // of --config
  bool help_asked_ = false;
  bool help_all_ = false;
};

// The variable of a flag: "BATON_LOG_LEVEL" of "log-level".
std::string EnvironmentName(std::string_view flag);

// The form of every usage error: "what: why. Try: next".
absl::Status UsageError(std::string_view what, std::string_view why, std::string_view next);

}  // namespace baton
