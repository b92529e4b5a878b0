#include "tools/sim/step_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/sim/read_text.h"

namespace baton::simulator {
namespace {

constexpr char kSchema[] = "baton.step_cost/1";
constexpr double kMostMicroseconds = 1e9;

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
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != kSchema) {
    return BadCost(where, "no step costs",
                   absl::StrCat("a JSON object with \"schema\": \"", kSchema, "\""));
  }
  const auto us = json.find("us");
  if (us == json.end() || !us->is_object())
    return BadCost(where, "no \"us\"", "an object of costs");
  for (const auto& [key, value] : us->items()) {
    const auto is_it = [&key = key](const auto& term) { return key == term.first; };
    if (std::ranges::none_of(kNamedTerms, is_it)) {
      return BadCost(where, absl::StrCat("us.", key),
                     "step, row, prompt_token, kv_token and attention_product");
    }
  }
  StepCost cost;
  for (const auto& [name, member] : kNamedTerms) {
    const auto value = us->find(name);
    const double number = value != us->end() && value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0 && number <= kMostMicroseconds)) {
      return BadCost(
          where, absl::StrCat("us.", name, " = ", value == us->end() ? "nothing" : value->dump()),
          "microseconds from 0 to 1e9");
    }
    cost.*member = number;
  }
  if (cost.step == 0 && cost.row == 0 && cost.prompt_token == 0) {
    return BadCost(where, "steps that take no time", "a step, row or prompt_token above 0");
  }
  return cost;
}

absl::StatusOr<StepCost> ReadStepCost(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadText(path, "the step costs "));
  return ParseStepCost(text, path);
}

std::string CostJson(const StepCost& cost, const std::string& note) {
  nlohmann::ordered_json us;
  for (const auto& [name, member] : kNamedTerms) us[name] = cost.*member;
  const nlohmann::ordered_json json = {{"schema", kSchema}, {"made_from", note}, {"us", us}};
  return json.dump(2) + "\n";
}

}  // namespace baton::simulator
