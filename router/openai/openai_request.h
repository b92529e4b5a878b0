#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/request_spec.h"

namespace baton {

// Which of the two ways to ask a request came.
enum class OpenAiApi { kCompletions, kChat };

// The fields that a body may name in two ways, by which errors name them: as it did.
struct OpenAiNames {
  std::string_view schema = "guided_json";
  std::string_view max_tokens = "max_tokens";
};

// What a request asks of the shape of its answer.
struct OpenAiShape {
  bool stream = false;
  bool include_usage = false;       // a last chunk with the usage
  bool continuous_usage = false;    // and every chunk with that so far
  int32_t answers = 1;              // choices that it has
  bool skip_special_tokens = true;  // the text leaves them out
  bool extension = false;           // the body has the object "baton", so the answer has one
  OpenAiNames names;
};

// A request as its body says it.
struct OpenAiRequest {
  v1::GenerationSpec spec;
  RequestInput input;
  std::optional<bool> special_tokens;
  int32_t usual_max_tokens = 0;  // see RequestSpec
  OpenAiShape shape;
  std::vector<std::string> ignored;  // names of fields that nobody knows
};

// Reads a body. Refuses, naming the field, what is not of its field's type, what the table of
// limits (common/sample/request_limits.h) forbids, and fields that OpenAI or vLLM have and Baton
// has not, unless their value asks for nothing. Values are checked later, as those of gRPC are.
// docs/openai.md has a table of all fields.
absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiApi api, std::string_view body);

}  // namespace baton
