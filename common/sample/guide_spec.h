#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/sample/params.h"

namespace baton {

// What the text of an answer has to follow.
enum class GuideKind {
  kNone,
  kJsonSchema,  // JSON that the schema in `text` allows
  kJsonObject,  // any JSON object
  kRegex,       // the whole of a regular expression
  kChoice,      // one of the strings of the JSON list in `text`
  kGrammar,     // a context-free grammar, in the dialect of Lark that llguidance reads
};

// A guide as a request names it. Plain data; GuideCompiler (common/guide) makes masks of it.
struct GuideSpec {
  GuideKind kind = GuideKind::kNone;
  std::string text;  // empty for kJsonObject

  bool empty() const { return kind == GuideKind::kNone; }
  friend bool operator==(const GuideSpec&, const GuideSpec&) = default;
};

// The field of a request that names a guide of this kind: "guided_json", …; "" for kNone.
std::string_view GuideFieldName(GuideKind kind);

// Refuses a text, or choices, beyond the table of limits as LIMIT_EXCEEDED, choices that cannot be
// counted as INVALID_GUIDE, and a guide beside a policy that ignores EOS as CONFLICTING_OPTIONS:
// its answer ends where the grammar does.
absl::Status ValidateGuide(const GuideSpec& guide, const StopParams& stop);

}  // namespace baton
