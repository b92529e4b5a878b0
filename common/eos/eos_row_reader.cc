#include "common/eos/eos_row_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "common/eos/eos_fields.h"
#include "common/eos/flat_json.h"

namespace baton {
namespace {

using Kind = FlatValue::Kind;

absl::Status WrongRow(std::string_view key, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.field = std::string(key)},
                   absl::StrCat(std::string(key), ": ", std::string(message)));
}

bool Fits(const EosField& field, const FlatValue& value) {
  if (value.kind == Kind::kNull) return field.nullable;
  const auto in_range = [&] { return value.number >= field.least && value.number <= field.most; };
  switch (field.value) {
    case EosValue::kText:
      return value.kind == Kind::kText;
    case EosValue::kWord:
      return value.kind == Kind::kText && std::ranges::count(field.words, value.text) == 1;
    case EosValue::kNumber:
      return value.kind == Kind::kNumber && in_range();
    case EosValue::kInteger:
      return value.kind == Kind::kNumber && in_range() && value.number == std::floor(value.number);
    case EosValue::kBool:
      return value.kind == Kind::kBool;
  }
  return false;
}

int32_t Int(const FlatValue& value) { return static_cast<int32_t>(value.number); }

std::optional<int32_t> OptionalInt(const FlatValue& value) {
  return value.kind == Kind::kNull ? std::nullopt : std::optional(Int(value));
}

std::optional<double> OptionalNumber(const FlatValue& value) {
  return value.kind == Kind::kNull ? std::nullopt : std::optional(value.number);
}

FinishReason ReasonOf(const FlatValue& value) {
  if (value.kind == Kind::kNull) return FinishReason::kNone;
  for (int reason = 0; reason <= static_cast<int>(FinishReason::kError); ++reason) {
    const auto candidate = static_cast<FinishReason>(reason);
    if (FinishReasonName(candidate) == value.text) return candidate;
  }
  return FinishReason::kNone;
}

EosPolicy PolicyOf(const FlatValue& value) {
  for (const EosPolicy policy :
       {EosPolicy::kHonor, EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    if (EosPolicyName(policy) == value.text) return policy;
  }
  return EosPolicy::kHonor;
}

void StoreInteger(EosKey key, const FlatValue& value, EosLogRow* row) {
  switch (key) {
    case EosKey::kStep:
      row->step = Int(value);
      break;
    case EosKey::kCurrentTokenId:
      row->token = Int(value);
      break;
    case EosKey::kEosTokenId:
      row->eos_token_id = OptionalInt(value);
      break;
    case EosKey::kPromptLength:
      row->prompt_length = Int(value);
      break;
    case EosKey::kOutputLength:
      row->output_length = Int(value);
      break;
    case EosKey::kTotalLength:
      row->total_length = static_cast<int64_t>(value.number);
      break;
    case EosKey::kEosRank:
      row->eos_rank = OptionalInt(value);
      break;
    case EosKey::kNaturalEndStep:
      row->natural_end_step = OptionalInt(value);
      break;
    case EosKey::kAttempt:
      row->attempt = Int(value);
      break;
    case EosKey::kIndex:
      row->index = Int(value);
      break;
    default:
      BATON_CHECK(false) << "not an integer: " << static_cast<int>(key);
  }
}

void StoreFigure(EosKey key, const FlatValue& value, EosLogRow* row) {
  switch (key) {
    case EosKey::kTimestamp:
      row->timestamp = value.number;
      break;
    case EosKey::kEosLogprob:
      row->eos_logprob = OptionalNumber(value);
      break;
    case EosKey::kEosProb:
      row->eos_prob = OptionalNumber(value);
      break;
    case EosKey::kEosProbSampling:
      row->eos_prob_sampling = OptionalNumber(value);
      break;
    case EosKey::kEntropy:
      row->entropy = OptionalNumber(value);
      break;
    case EosKey::kTop1Prob:
      row->top1_prob = OptionalNumber(value);
      break;
    default:
      BATON_CHECK(false) << "not a figure: " << static_cast<int>(key);
  }
}

// Puts a value that fits its field into the row.
void Store(const EosField& field, FlatValue* value, EosLogRow* row) {
  switch (field.value) {
    case EosValue::kInteger:
      return StoreInteger(field.key, *value, row);
    case EosValue::kNumber:
      return StoreFigure(field.key, *value, row);
    case EosValue::kText:
      return row->request_id.swap(value->text);
    case EosValue::kBool:
      row->is_finished = value->boolean;
      return;
    case EosValue::kWord:
      if (field.key == EosKey::kEosPolicy) {
        row->policy = PolicyOf(*value);
      } else {
        row->finish_reason = ReasonOf(*value);
      }
  }
}

// The field of that name. Rows of Baton have their keys in the order of the table, so the search
// begins where the last one ended.
const EosField* FieldOf(std::string_view name, size_t expected) {
  const auto fields = EosFields();
  if (expected < fields.size() && fields[expected].name == name) return &fields[expected];
  const auto found = std::ranges::find(fields, name, &EosField::name);
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace

absl::Status ReadEosRow(std::string_view line, EosLogRow* row) {
  uint32_t seen = 0;  // a bit for each field
  size_t expected = 0;
  row->index = 0;
  BATON_RETURN_IF_ERROR(ReadFlatJson(line, [&](std::string& key, FlatValue& value) {
    const EosField* field = FieldOf(key, expected);
    if (field == nullptr) {
      return WrongRow(ShownText(key), "found this key, expected none of that name");
    }
    if (!Fits(*field, value)) {
      return WrongRow(
          key, absl::StrCat("found ", ShownText(value.Json()), ", expected ", ExpectedOf(*field)));
    }
    const uint32_t bit = uint32_t{1} << static_cast<int>(field->key);
    if ((seen & bit) != 0) return WrongRow(key, "found twice in the row, expected once");
    seen |= bit;
    expected = static_cast<size_t>(field->key) + 1;
    Store(*field, &value, row);
    return absl::OkStatus();
  }));
  const auto missing = static_cast<size_t>(std::countr_one(seen));
  if (missing < EosFields().size() && !EosFields()[missing].optional) {
    return WrongRow(EosFields()[missing].name,
                    "not in the row, expected " + ExpectedOf(EosFields()[missing]));
  }
  return absl::OkStatus();
}

}  // namespace baton
