#include "tools/sim/step_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/shallow_json.h"
#include "nlohmann/json.hpp"
#include "tools/sim/read_text.h"

namespace baton::simulator {
namespace {

constexpr char kSchema[] = "baton.step_cost/1";
constexpr double kMostMicroseconds = 1e9;

constexpr double kMostRows = 1e6;
constexpr char kRowBeyond[] = "row_beyond";

constexpr std::array<std::pair<const char*, double StepCost::*>, 5> kNamedTerms = {
    {{"step", &StepCost::step},
     {"row", &StepCost::row},
     {"prompt_token", &StepCost::prompt_token},
     {"kv_token", &StepCost::kv_token},
     {"attention_product", &StepCost::product}}};

absl::Status BadCost(const std::string& where, const std::string& found,
                     const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": found ", found, "; expected ", expected,
                                                 "; baton sim fit writes such files"));
}

// What is found under `key`, as a message says it.
std::string Found(const nlohmann::json& object, const char* key) {
  const auto value = object.find(key);
  return value == object.end() ? "nothing" : value->dump();
}

// The number under `key` if it is one from `least` to `most`; else nothing.
std::optional<double> NumberWithin(const nlohmann::json& object, const char* key, double least,
                                   double most) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_number()) return std::nullopt;
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) return std::nullopt;
  return number;
}

absl::Status ReadBends(const nlohmann::json& us, const std::string& where, StepCost* cost) {
  const auto bends = us.find(kRowBeyond);
  if (bends == us.end()) return absl::OkStatus();
  const std::string list = absl::StrCat("us.", kRowBeyond);
  if (!bends->is_array() || bends->size() > kMostRowBends) {
    return BadCost(where,
                   bends->is_array() ? absl::StrCat(list, " of ", bends->size(), " entries")
                                     : absl::StrCat(list, " = ", bends->dump()),
                   absl::StrCat("a list of at most ", kMostRowBends, " {\"rows\", \"us\"}"));
  }
  double before = 0;
  for (size_t i = 0; i < bends->size(); ++i) {
    const nlohmann::json& bend = (*bends)[i];
    const std::string name = absl::StrCat(list, "[", i, "]");
    if (!bend.is_object() || bend.size() != 2) {
      return BadCost(where, absl::StrCat(name, " = ", bend.dump()), "{\"rows\", \"us\"}");
    }
    const auto beyond = NumberWithin(bend, "rows", 1, kMostRows);
    if (!beyond || *beyond <= before) {
      return BadCost(where, absl::StrCat(name, ".rows = ", Found(bend, "rows")),
                     "rows from 1 to 1e6, each entry's more than those of the one before");
    }
    const auto more = NumberWithin(bend, "us", 0, kMostMicroseconds);
    if (!more) {
      return BadCost(where, absl::StrCat(name, ".us = ", Found(bend, "us")),
                     "microseconds from 0 to 1e9");
    }
    cost->row_bends[i] = {.beyond = *beyond, .more = *more};
    before = *beyond;
  }
  return absl::OkStatus();
}

}  // namespace

StepWork WorkOf(const StepPlan& plan) {
  StepWork work;
  work.rows = plan.shape.decode_sequences;
  work.prompt_tokens = plan.shape.prefill_tokens;
  for (const StepRow& row : plan.rows) {
    const double tokens = row.num_tokens();
    const double before = row.first_position;
    // The shape does not say which rows generate. Those of one token do, but for a rare last piece
    // of a prompt, which reads as much.
    if (row.num_tokens() == 1) {
      work.kv_tokens += before + 1;
    } else {
      work.products += tokens * before + tokens * (tokens + 1) / 2;
    }
  }
  return work;
}

base::Duration StepCost::Of(const StepWork& work) const {
  const double nanoseconds = 1e3 * Microseconds(work);
  return base::Duration(std::max<int64_t>(1, std::llround(std::min(nanoseconds, 1e15))));
}

absl::StatusOr<StepCost> ParseStepCost(const std::string& text, const std::string& where) {
  const nlohmann::json json = ParseShallow(text).value;
  if (!json.is_object() || json.value("schema", nlohmann::json()) != kSchema) {
    return BadCost(where, "no step costs",
                   absl::StrCat("a JSON object with \"schema\": \"", kSchema, "\""));
  }
  const auto us = json.find("us");
  if (us == json.end() || !us->is_object())
    return BadCost(where, "no \"us\"", "an object of costs");
  for (const auto& [key, value] : us->items()) {
    const auto is_it = [&key = key](const auto& term) { return key == term.first; };
    if (key != kRowBeyond && std::ranges::none_of(kNamedTerms, is_it)) {
      return BadCost(where, absl::StrCat("us.", key),
                     "step, row, row_beyond, prompt_token, kv_token and attention_product");
    }
  }
  StepCost cost;
  for (const auto& [name, member] : kNamedTerms) {
    const auto number = NumberWithin(*us, name, 0, kMostMicroseconds);
    if (!number) {
      return BadCost(where, absl::StrCat("us.", name, " = ", Found(*us, name)),
                     "microseconds from 0 to 1e9");
    }
    cost.*member = *number;
  }
  BATON_RETURN_IF_ERROR(ReadBends(*us, where, &cost));
  if (cost.step == 0 && cost.row == 0 && cost.prompt_token == 0) {
    return BadCost(where, "steps that take no time", "a step, row or prompt_token above 0");
  }
  return cost;
}

absl::StatusOr<StepCost> ReadStepCost(const std::string& path) {
  const auto text = ReadText(path, "the step costs ");
  if (text.ok()) return ParseStepCost(*text, path);
  // The flag is wrong; no resource is lacking.
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(text.status().message()), "; baton sim fit FILE… > cost.json"));
}

nlohmann::ordered_json CostTerms(const StepCost& cost) {
  nlohmann::ordered_json us;
  for (const auto& [name, member] : kNamedTerms) {
    us[name] = cost.*member;
    if (member != &StepCost::row) continue;
    for (const RowBend& bend : cost.row_bends) {
      if (bend.more > 0) us[kRowBeyond].push_back({{"rows", bend.beyond}, {"us", bend.more}});
    }
  }
  return us;
}

std::string CostJson(const StepCost& cost, const std::string& note) {
  const nlohmann::ordered_json json = {
      {"schema", kSchema}, {"made_from", note}, {"us", CostTerms(cost)}};
  return json.dump(2) + "\n";
}

}  // namespace baton::simulator
