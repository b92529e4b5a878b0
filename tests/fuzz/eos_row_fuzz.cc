// Rows of the EOS log: what is accepted is JSON, has the values that a JSON library reads, and
// keeps to the table of fields.
#include <string>

#include "common/eos/eos_fields.h"
#include "common/eos/eos_row_reader.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

template <typename T>
bool Same(const nlohmann::json& json, const std::optional<T>& value) {
  return json.is_null() ? !value : value && json.get<double>() == static_cast<double>(*value);
}

void CheckFields(const nlohmann::json& json) {
  size_t found = 0;
  for (const EosField& field : EosFields()) {
    const auto value = json.find(field.name);
    if (value == json.end()) {
      BATON_CHECK(field.optional) << field.name;
      continue;
    }
    ++found;
    if (!value->is_number()) continue;
    BATON_CHECK(*value >= field.least && *value <= field.most) << field.name;
  }
  BATON_CHECK(json.size() == found) << json.size();
}

}  // namespace

FUZZ_TARGET(eos_row) {
  EosLogRow row;
  if (!Accepted(ReadEosRow(input, &row))) return;
  const auto json = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  BATON_CHECK(json.is_object()) << "accepted what is not JSON";
  CheckFields(json);
  BATON_CHECK(json["request_id"] == row.request_id) << row.request_id;
  BATON_CHECK(json["timestamp"] == row.timestamp) << row.timestamp;
  BATON_CHECK(json["step"] == row.step && json["current_token_id"] == row.token) << row.step;
  BATON_CHECK(json["is_finished"] == row.is_finished);
  BATON_CHECK(json["finish_reason"].is_null() ||
              json["finish_reason"] == FinishReasonName(row.finish_reason));
  BATON_CHECK(json["prompt_length"] == row.prompt_length) << row.prompt_length;
  BATON_CHECK(json["output_length"] == row.output_length) << row.output_length;
  BATON_CHECK(json["total_length"] == row.total_length) << row.total_length;
  BATON_CHECK(json["eos_policy"] == EosPolicyName(row.policy));
  BATON_CHECK(json["attempt"] == row.attempt) << row.attempt;
  BATON_CHECK(json.value("index", 0) == row.index) << row.index;
  BATON_CHECK(Same(json["eos_token_id"], row.eos_token_id) && Same(json["eos_rank"], row.eos_rank));
  BATON_CHECK(Same(json["eos_logprob"], row.eos_logprob) && Same(json["eos_prob"], row.eos_prob));
  BATON_CHECK(Same(json["eos_prob_sampling"], row.eos_prob_sampling));
  BATON_CHECK(Same(json["entropy"], row.entropy) && Same(json["top1_prob"], row.top1_prob));
  BATON_CHECK(Same(json["natural_end_step"], row.natural_end_step));
}

}  // namespace baton::fuzz
