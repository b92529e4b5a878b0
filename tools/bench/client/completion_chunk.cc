#include "tools/bench/client/completion_chunk.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "nlohmann/json.hpp"

namespace baton::bench {
namespace {

using Json = nlohmann::json;

constexpr size_t kQuoted = 200;  // bytes of a body that an error repeats
constexpr size_t kMaxDepth = 32;

std::string Quote(std::string_view text) {
  return absl::StrCat("'", ShownText(text, kQuoted), "'");
}

// Reads without building a document: this runs for every token of thousands of streams.
class ChunkReader final : public nlohmann::json_sax<Json> {
 public:
  explicit ChunkReader(CompletionChunk* chunk) : chunk_(chunk) { levels_.reserve(8); }

  bool has_root_object() const { return has_root_object_; }
  bool is_error() const { return is_error_; }

  bool start_object(size_t) override { return Open(/*array=*/false); }
  bool start_array(size_t) override { return Open(/*array=*/true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    levels_.back().key.assign(name);
    return true;
  }

  bool string(string_t& value) override {
    if (At("id")) chunk_->id = value;
    if (At("object") && value == "error") is_error_ = true;
    if (InFirstChoice("text")) text_ = value.empty() ? Text::kEmpty : Text::kSome;
    if (InFirstChoice("finish_reason")) chunk_->finish_reason = value;
    return Value();
  }

  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(value > std::numeric_limits<int32_t>::max() ? std::numeric_limits<int32_t>::max()
                                                              : static_cast<int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool null() override { return Next(); }
  bool binary(binary_t&) override { return Value(); }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

  void Finish() {
    if (token_ids_) {
      chunk_->tokens = *token_ids_;
    } else if (text_ == Text::kSome) {
      chunk_->tokens = 1;
    } else if (text_ == Text::kEmpty) {
      chunk_->may_be_token = !chunk_->finish_reason.empty() || chunk_->usage.has_value();
      chunk_->tokens = chunk_->may_be_token ? 0 : 1;
    }
  }

 private:
  enum class Text { kAbsent, kEmpty, kSome };
  struct Level {
    bool array = false;
    std::string key;    // of the member being read
    int64_t index = 0;  // of the element being read
  };

  bool Open(bool array) {
    if (levels_.empty()) has_root_object_ = !array;
    if (levels_.size() >= kMaxDepth) return false;
    if (At("usage") && !array) chunk_->usage = CompletionChunk::Usage{};
    if (array && AtTokenIds(levels_.size())) token_ids_ = 0;
    levels_.push_back({.array = array, .key = {}, .index = 0});
    return true;
  }

  bool Close() {
    levels_.pop_back();
    return Value();
  }

  // The value at this place has been read, and is not null.
  bool Value() {
    if (At("error")) is_error_ = true;
    return Next();
  }

  bool Next() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
    return true;
  }

  bool Number(int64_t value) {
    if (chunk_->usage) {
      const auto count =
          static_cast<int32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max()));
      if (At("usage", "prompt_tokens")) chunk_->usage->prompt_tokens = count;
      if (At("usage", "completion_tokens")) chunk_->usage->completion_tokens = count;
      if (levels_.size() == 3 && IsKey(0, "usage") && IsKey(1, "prompt_tokens_details") &&
          IsKey(2, "cached_tokens")) {
        chunk_->usage->cached_tokens = count;
      }
    }
    if (token_ids_ && levels_.back().array && AtTokenIds(levels_.size() - 1)) ++*token_ids_;
    return Value();
  }

  bool IsKey(size_t level, std::string_view name) const {
    return !levels_[level].array && levels_[level].key == name;
  }
  bool At(std::string_view name) const { return levels_.size() == 1 && IsKey(0, name); }
  bool At(std::string_view outer, std::string_view inner) const {
    return levels_.size() == 2 && IsKey(0, outer) && IsKey(1, inner);
  }
  bool InChoices() const {
    return IsKey(0, "choices") && levels_[1].array && levels_[1].index == 0;
  }
  bool InFirstChoice(std::string_view name) const {
    return levels_.size() == 3 && InChoices() && IsKey(2, name);
  }
  // Whether the innermost of the outer `levels` is about to read the value of token_ids.
  bool AtTokenIds(size_t levels) const {
    if (levels == 3) return InChoices() && IsKey(2, "token_ids");
    return levels == 2 && IsKey(0, "baton") && IsKey(1, "token_ids");
  }

  CompletionChunk* const chunk_;
  std::vector<Level> levels_;
  bool has_root_object_ = false;
  bool is_error_ = false;
  Text text_ = Text::kAbsent;
  std::optional<int32_t> token_ids_;  // how many there are; absent: the server sends none
};

}  // namespace

absl::StatusOr<CompletionChunk> ParseCompletionChunk(std::string_view json) {
  CompletionChunk chunk;
  ChunkReader reader(&chunk);
  if (!Json::sax_parse(json, &reader) || !reader.has_root_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("an event of the stream is no JSON object: ", Quote(json)));
  }
  reader.Finish();
  if (reader.is_error()) chunk.error = ErrorMessageOf(json);
  return chunk;
}

std::string ErrorMessageOf(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    for (const char* path : {"/error/message", "/error", "/message", "/detail"}) {
      const Json::json_pointer pointer(path);
      if (!json.contains(pointer) || !json[pointer].is_string()) continue;
      const auto& message = json[pointer].get_ref<const std::string&>();
      if (!message.empty()) return ShownText(message, kQuoted);
    }
  }
  return body.empty() ? "no message" : Quote(body);
}

}  // namespace baton::bench
