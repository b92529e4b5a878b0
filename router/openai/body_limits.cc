#include "router/openai/body_limits.h"

#include <algorithm>
#include <span>

namespace baton {
namespace {

constexpr BodyLimit kBodyLimits[] = {
    {"stop", RequestLimit::kStopStrings},
    {"stop", RequestLimit::kStopStringBytes},
    {"stop.[]", RequestLimit::kStopStringBytes},
    {"stop_token_ids", RequestLimit::kStopTokenIds},
    {"logit_bias", RequestLimit::kLogitBiases},
    {"guided_json", RequestLimit::kGuidedJson, "guided_json", true},
    {"response_format.json_schema.schema", RequestLimit::kGuidedJson, "response_format.json_schema",
     true},
    {"guided_regex", RequestLimit::kGuidedRegex},
    {"guided_grammar", RequestLimit::kGuidedGrammar},
    {"guided_choice", RequestLimit::kGuidedChoices},
    {"guided_choice.[]", RequestLimit::kGuidedChoiceBytes},
    {"request_id", RequestLimit::kRequestId},
    {"cache_salt", RequestLimit::kCacheSalt},
    {"baton.tag", RequestLimit::kTag},
};

constexpr BodyLimit kChatLimits[] = {
    {"messages", RequestLimit::kMessages},
    {"messages.[].role", RequestLimit::kMessageRole},
    {"messages.[].name", RequestLimit::kMessageName},
};

void Add(const BodyLimit& limit, std::string_view path, BoundedValue* value) {
  if (path.empty()) {
    const RequestLimitRow& row = RequestLimits()[static_cast<size_t>(limit.limit)];
    (row.kind == LimitKind::kCount ? value->count : value->bytes) = &limit;
    return;
  }
  const std::string_view key = path.substr(0, path.find('.'));
  path.remove_prefix(std::min(path.size(), key.size() + 1));
  auto found = std::ranges::find(value->inside, key, &BoundedValue::key);
  if (found == value->inside.end()) {
    value->inside.push_back({.key = key, .inside = {}});
    found = value->inside.end() - 1;
  }
  Add(limit, path, &*found);
}

const BoundedValue* NewBody(bool chat) {
  auto* const body = new BoundedValue;
  for (const BodyLimit& limit : kBodyLimits) Add(limit, limit.path, body);
  if (!chat) return body;
  for (const BodyLimit& limit : kChatLimits) Add(limit, limit.path, body);
  return body;
}

}  // namespace

const BoundedValue* BoundedValue::Inside(std::string_view name) const {
  const auto found = std::ranges::find(inside, name, &BoundedValue::key);
  return found == inside.end() ? nullptr : &*found;
}

const BoundedValue& BoundedBody(OpenAiApi api) {
  static const BoundedValue* const chat = NewBody(true);
  static const BoundedValue* const completions = NewBody(false);
  return api == OpenAiApi::kChat ? *chat : *completions;
}

}  // namespace baton
