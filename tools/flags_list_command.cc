#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/config/flag_types.h"
#include "common/sample/request_limits.h"
#include "tools/commands.h"
#include "tools/settings_of.h"

namespace baton {
namespace {

constexpr std::string_view kHead = R"(# Flags

Every flag of every command. This page is made by `baton flags list --markdown` from the definitions that read the
command lines; a test compares them. `COMMAND --help` lists the common flags of one command, `--help all` every one.

## Where a setting comes from

A setting is taken from the first of these that names it:

1. the command line: `--max-num-seqs 8` or `--max-num-seqs=8`;
2. the environment: `BATON_MAX_NUM_SEQS=8`;
3. the file that `--config FILE.toml` names: `max-num-seqs = 8` or `max_num_seqs = 8`;
4. the default.

A flag that takes no value is a switch: `--NAME` and `--NAME=true` turn it on, `--no-NAME` and `--NAME=false` turn it
off. An unknown flag or key is an error that names the nearest one. An unknown variable is ignored, with a warning at the
start where its name is nearly that of a known one; of variables as Kubernetes makes them for a service (`BATON_PORT` that
begins with `tcp://`, `BATON_SERVICE_HOST`, `BATON_PORT_8000_TCP`) nothing is said.

In the file, which is [TOML](https://toml.io), a key at the top holds for every command that reads the file, and each of
them must know it. A key in a section that is named like a command, as `[serve]`, `[router]`, `[bench]` or `[batch]`,
holds for that command only, and wins. Commands of two words share the section of the first, as `[eos]`, and each of them
that reads the file must know its keys:

```toml
log-level = "warn"

[serve]
decode = 2
kv-cache-memory = "2GiB"
```

`baton config print` shows the settings of `serve` that would be in force, each with where it comes from, and
`baton config check FILE.toml DIR` says whether `baton serve DIR --config FILE.toml` would take them, variables left out. A first
word asks about another command, as in `baton config print router --port 0` or `baton config check router FILE.toml`: `router`,
`prefill`, `decode`, `generate`, `chat` or `bench`. Behind the file stands what its line has beside `--config`. Files and models
that the settings name, as `tls-cert`, `api-keys`, `predictor` or `model-dir`, and the folder of `eos-log` have to be there, too:
check where it runs, from its folder. What is in them is not looked at.

## Exit codes

| code | what ended the command |
|---|---|
| 0 | nothing went wrong |
| 1 | a request failed, or a log holds what is no good row |
| 2 | the command line, the environment or the configuration file |
| 3 | the model directory |
| 4 | a resource: memory, a file, a device |
| 5 | a port in use |

The last line of a command that ends with 2 to 5 says what is wrong, why, and what to try. With 2 there is such a line for
each error, up to ten, those of the file with its name and line.

Input and outputs that are closed when a command or server starts (`<&-`, `>&-`, `2>&-`) are as `/dev/null`.
)";

// One command, and the default that the flag has there.
struct Taker {
  std::string command;
  std::string default_value;
};

// A flag with all commands in which it means the same.
struct Row {
  std::string group;
  std::string name;
  std::string usage;  // as typed: "--stop-token-id ID"
  std::string help;
  std::vector<Taker> takers;
};

std::string Usage(const Flag& flag) {
  if (flag.positional) return flag.value;
  std::string usage = "--" + flag.name;
  for (const std::string& alias : flag.aliases) absl::StrAppend(&usage, ", --", alias);
  return flag.value.empty() ? usage : usage + " " + flag.value;
}

// "serve" of "baton serve"; "baton-router" as it is.
std::string CommandOf(const FlagSet& set) {
  constexpr std::string_view kBaton = "baton ";
  return set.program().substr(set.program().starts_with(kBaton) ? kBaton.size() : 0);
}

// Rows of one name stand together, whatever they mean.
Row& RowOf(const Flag& flag, std::vector<Row>* rows) {
  Row row = {flag.group, flag.name, Usage(flag), flag.help, {}};
  auto place = rows->end();
  for (auto other = rows->begin(); other != rows->end(); ++other) {
    if (other->group != row.group || other->name != row.name) continue;
    if (other->usage == row.usage && other->help == row.help) return *other;
    place = other + 1;
  }
  return *rows->insert(place, std::move(row));
}

void AddRows(const FlagSet& set, std::vector<Row>* rows) {
  for (const Flag& flag : set.flags()) {
    if (flag.hidden) continue;
    RowOf(flag, rows).takers.push_back({CommandOf(set), absl::StrJoin(flag.get(), ",")});
  }
}

// The servers first: `baton serve` takes nearly all that they take.
std::vector<Row> AllRows() {
  std::vector<Row> rows;
  for (const std::string& server : ConfigurableCommands()) {
    const auto settings = SettingsOf(server, (server == "serve" ? "baton " : "baton-") + server);
    BATON_CHECK(settings.has_value()) << server;
    AddRows(*settings->set, &rows);
  }
  for (const Command& command : Commands()) {
    // `config` takes the flags of the command that it is asked about.
    if (command.name == "serve" || command.name.starts_with("config ")) continue;
    command.run(
        {.arguments = {}, .show_flags = [&rows](const FlagSet& set) { AddRows(set, &rows); }});
  }
  return rows;
}

std::string TakersOf(const Row& row) {
  return absl::StrJoin(row.takers, ", ", [](std::string* text, const Taker& taker) {
    absl::StrAppend(text, taker.command);
  });
}

constexpr std::string_view kLimits = R"(
## Limits of a request

What one request may contain; more is refused as `LIMIT_EXCEEDED`, with the field, what it has and the limit. These are
no settings: with them, what a request costs follows from what it may generate.

)";

// "50051; baton-prefill: 50052"
std::string DefaultsOf(const Row& row) {
  const std::string& first = row.takers.front().default_value;
  std::string text = first;
  for (const Taker& taker : row.takers) {
    if (taker.default_value == first) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", taker.command, ": ", taker.default_value);
  }
  return text;
}

std::string AsText(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    const std::string defaults = DefaultsOf(row);
    absl::StrAppend(&text, row.usage, "  (", TakersOf(row), ")  ", EnvironmentName(row.name),
                    defaults.empty() ? "" : "  [" + defaults + "]", "\n    ", row.help, "\n");
  }
  return text;
}

// Inside a table, also inside its code, markdown takes a bare bar for the end of a cell.
std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string TableLine(const Row& row) {
  return absl::StrCat("| `", Cell(row.usage), "` | ", TakersOf(row), " | ", Cell(DefaultsOf(row)),
                      " | `", EnvironmentName(row.name), "` | ", Cell(row.help), " |\n");
}

std::string AsMarkdown(const std::vector<Row>& rows) {
  std::vector<std::string> groups;
  for (const Row& row : rows) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) {
      groups.push_back(row.group);
    }
  }
  std::string text(kHead);
  for (const std::string& group : groups) {
    absl::StrAppend(&text, "\n## ", group, "\n\n",
                    "| flag | of | default | variable | meaning |\n|---|---|---|---|---|\n");
    for (const Row& row : rows) {
      if (row.group == group) text += TableLine(row);
    }
  }
  return text + std::string(kLimits) + RequestLimitsMarkdown();
}

}  // namespace

int FlagsListCommand(const Invocation& call) {
  bool as_markdown = false;
  FlagSet set("baton flags list", "flags", "Every flag with the commands that take it.");
  set.Add(Common(With(SwitchFlag("markdown", &as_markdown), "Output", "as docs/flags.md")));
  if (const auto exit = call.Read(&set)) return *exit;
  Print(as_markdown ? AsMarkdown(AllRows()) : AsText(AllRows()));
  return 0;
}

}  // namespace baton
