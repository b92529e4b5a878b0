// Settings from the command line, which CLI11 reads, and from the environment.
#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"
#include "common/config/unknown_variables.h"
#include "common/config/usage_errors.h"

namespace baton {
namespace {

// A flag's names as CLI11 takes them: "--name,--alias", with "!--no-name" for a switch; a bare name
// for a positional argument.
std::string CliNames(const Flag& flag) {
  if (flag.positional) return flag.name;
  std::string names = "--" + flag.name;
  for (const std::string& alias : flag.aliases) names += ",--" + alias;
  if (flag.value.empty()) names += ",!--no-" + flag.name;
  return names;
}

CLI::Option* AddToApp(CLI::App* app, const Flag& flag) {
  const bool is_switch = flag.value.empty();
  CLI::Option* option = is_switch ? app->add_flag(CliNames(flag)) : app->add_option(CliNames(flag));
  if (!is_switch) option->type_size(1)->expected(flag.positional && flag.repeatable ? -1 : 1);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option;
}

}  // namespace

std::string EnvironmentName(std::string_view flag) {
  std::string name = "BATON_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void FlagSet::CheckRemaining(const std::vector<std::string>& remaining, UsageErrors* errors) const {
  const size_t before = errors->count();
  for (const std::string& argument : remaining) {
    if (argument.size() < 2 || argument[0] != '-') continue;
    const std::string flag = argument.substr(0, argument.find('='));
    const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    if (const auto foreign = foreign_.find(name); foreign != foreign_.end()) {
      errors->Add(UsageError("unknown flag " + flag, program_ + " has no flag of that name",
                             foreign->second));
      continue;
    }
    // Of one letter, as of none, any short flag is a slip away.
    const std::string nearest = name.size() < 2 ? "" : NearestName(flag, VisibleNames("--"));
    errors->Add(UsageError("unknown flag " + flag, program_ + " has no such flag",
                           nearest.empty() ? program_ + " --help all" : nearest));
  }
  // What stands behind an unknown flag may be its value.
  if (remaining.empty() || errors->count() > before) return;
  errors->Add(UsageError("unexpected argument '" + remaining.front() + "'",
                         program_ + " takes no more of them", program_ + " --help"));
}

void FlagSet::ReadCommandLine(const std::vector<std::string>& arguments, RawValues* raw,
                              UsageErrors* errors) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const CLI::Option* help = app.add_flag("-h,--help");
  std::vector<std::pair<const Flag*, CLI::Option*>> options;
  for (const Flag& flag : flags_) options.emplace_back(&flag, AddToApp(&app, flag));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    // "--prompt: 1 required  missing"
    const std::string text = error.what();
    const std::string flag = text.substr(0, text.find(':'));
    errors->Add(UsageError("found no value of " + flag, "expected one behind it",
                           flag + " VALUE; an empty one is " + flag + " ''"));
    return;
  } catch (const CLI::ParseError& error) {
    errors->Add(UsageError("cannot read the command line", error.what(), program_ + " --help"));
    return;
  } catch (const std::out_of_range&) {
    // CLI11 turns a number behind a negated switch round, and does not say whose was too large.
    errors->Add(UsageError("found a number too large behind a switch --no-NAME",
                           "expected the switch alone", "--no-NAME, or --NAME=false"));
    return;
  }
  help_asked_ = help->count() > 0;
  if (help_asked_) {
    const auto all = std::find(arguments.begin(), arguments.end(), "all");
    help_all_ = all != arguments.end() && all != arguments.begin() &&
                (*(all - 1) == "--help" || *(all - 1) == "-h");
    return;
  }
  CheckRemaining(app.remaining(), errors);
  for (const auto& [flag, option] : options) {
    if (option->count() == 0) continue;
    (*raw)[flag->name] = {.source = FlagSource::kCommandLine,
                          .origin = flag->positional ? flag->value : "--" + flag->name,
                          .values = option->results()};
  }
}

void FlagSet::ReadEnvironment(const Environment& environment, RawValues* raw) {
  std::vector<std::string> known;
  for (const Flag& flag : flags_) {
    std::vector<std::string> names = {flag.name};
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
    for (const std::string& name : names) known.push_back(EnvironmentName(name));
    if (raw->contains(flag.name)) continue;
    for (const std::string& name : names) {
      const auto variable = environment.find(EnvironmentName(name));
      if (variable == environment.end() || variable->second.empty()) continue;
      if (flag.is_port && IsServiceLink(variable->second)) continue;
      (*raw)[flag.name] = {.source = FlagSource::kEnvironment,
                           .origin = variable->first,
                           .values = {variable->second}};
      break;
    }
  }
  warnings_ = UnknownVariableWarnings(environment, known);
}

}  // namespace baton
