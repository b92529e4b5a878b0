#include "router/openai/json_body.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/openai/body_limits.h"
#include "router/openai/json_fields.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

constexpr int64_t kMaxBodyDepth = 32;
// A value takes up to 16 times its bytes in memory, and a prompt may be given as ids.
constexpr int64_t kMaxBodyValues = int64_t{1} << 21;
constexpr size_t kExcerptBytes = 64;
// The library's code for one that no double can hold.
constexpr int kNumberTooLarge = 406;
constexpr std::string_view kMaxNumber = "1.8e308";

std::string Excerpt(std::string_view text) {
  return absl::StrCat("'", absl::CHexEscape(std::string(text.substr(0, kExcerptBytes))),
                      text.size() > kExcerptBytes ? "…'" : "'");
}

std::string NotJson(size_t position, const std::string& near) {
  return absl::StrCat("the body is not JSON in UTF-8: at byte ", position, ", near ", near,
                      "; expected an object");
}

// A place in the body that notes how far the parser has come, which the library does not tell.
struct ReadPlace {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  const char* at;
  const char** read;  // the end of what has been read

  char operator*() const { return *at; }
  ReadPlace& operator++() {
    *read = ++at;
    return *this;
  }
  bool operator==(const ReadPlace& other) const { return at == other.at; }
};

// Reads a body without keeping anything of it, and says what is wrong with it.
class BodyCheck final : public nlohmann::json_sax<BodyJson> {
 public:
  // `read` is where the parser is, at each call.
  BodyCheck(const BoundedValue& body, const char* const* read) : body_(body), read_(read) {}

  const absl::Status& status() const { return status_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t& text) override {
    const BoundedValue* bounds = NextBounds();
    if (bounds != nullptr && bounds->bytes != nullptr && !excess_ &&
        !Within(*bounds->bytes, std::ssize(text))) {
      return false;
    }
    return Value();
  }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(size_t) override { return Open(/*list=*/false); }
  bool start_array(size_t) override { return Open(/*list=*/true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (levels_.size() == 1) field_ = name.substr(0, kExcerptBytes);
    level.next = level.bounds != nullptr ? level.bounds->Inside(name) : nullptr;
    CountEntry(&level);
    CountText();
    if (excess_ || level.keys.insert(name).second) return true;
    return Fail(InvalidArgument(
        Reason::kNone, "",
        absl::StrCat("the key ", Excerpt(name), " stands twice in one object; give it once")));
  }

  bool parse_error(size_t position, const std::string& token,
                   const BodyJson::exception& error) override {
    if (error.id == kNumberTooLarge) {
      return Fail(
          LimitError(absl::CHexEscape(token.substr(0, kExcerptBytes)), kMaxNumber,
                     absl::StrCat("the number ", Excerpt(token), ", which ends at byte ", position,
                                  ", is too large; expected at most ", std::string(kMaxNumber))));
    }
    return Fail(InvalidArgument(Reason::kNone, "", NotJson(position, Excerpt(token))));
  }

 private:
  // An object or a list that is open.
  struct Level {
    const BoundedValue* bounds;  // its own; null where it has none
    const BoundedValue* next;    // those of what comes next in it
    bool list;
    const char* begin;  // its bracket
    int64_t entries = 0;
    std::set<std::string> keys = {};
  };
  // A bound that is passed. What is inside is then only counted, so that the error has the whole.
  struct Excess {
    const BodyLimit* limit;
    size_t level;
  };

  const BoundedValue* NextBounds() const { return levels_.empty() ? &body_ : levels_.back().next; }

  bool Value() {
    if (!levels_.empty() && levels_.back().list) CountEntry(&levels_.back());
    if (excess_ || ++values_ <= kMaxBodyValues) return true;
    return FailAtMost(kMaxBodyValues, "values");
  }
  bool Open(bool list) {
    if (std::ssize(levels_) >= kMaxBodyDepth) {
      return FailAtMost(kMaxBodyDepth, "levels of objects and lists");
    }
    const BoundedValue* bounds = NextBounds();
    if (!Value()) return false;
    const BoundedValue* next = list && bounds != nullptr ? bounds->Inside("[]") : nullptr;
    if (bounds != nullptr && bounds->bytes != nullptr && bounds->bytes->as_json && !text_level_) {
      text_level_ = levels_.size();
    }
    levels_.push_back({.bounds = bounds, .next = next, .list = list, .begin = *read_ - 1});
    return true;
  }
  bool Close() {
    const Level& level = levels_.back();
    const size_t index = levels_.size() - 1;
    CountText();
    if (excess_ && excess_->level == index) {
      const bool text = excess_->limit->as_json;
      return Within(*excess_->limit, text ? *read_ - level.begin : level.entries);
    }
    if (text_level_ == index) text_level_.reset();
    levels_.pop_back();
    return true;
  }

  void CountEntry(Level* level) {
    ++level->entries;
    if (excess_ || level->bounds == nullptr || level->bounds->count == nullptr) return;
    if (!CheckLimit(level->bounds->count->limit, level->entries).ok()) {
      excess_ = {.limit = level->bounds->count, .level = levels_.size() - 1};
    }
  }
  // Of what is bounded by its bytes in the body, and still open.
  void CountText() {
    if (excess_ || !text_level_) return;
    const Level& level = levels_[*text_level_];
    if (!CheckLimit(level.bounds->bytes->limit, *read_ - level.begin).ok()) {
      excess_ = {.limit = level.bounds->bytes, .level = *text_level_};
    }
  }
  bool Within(const BodyLimit& limit, int64_t have) {
    const absl::Status within = limit.name.empty() ? CheckLimit(limit.limit, have)
                                                   : CheckLimitAs(limit.name, limit.limit, have);
    return within.ok() || Fail(within);
  }

  absl::Status LimitError(std::string have, std::string_view limit, std::string_view message) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.reason = Reason::kLimitExceeded,
                      .field = field_,
                      .values = {{"have", std::move(have)}, {"limit", std::string(limit)}}},
                     message);
  }
  bool FailAtMost(int64_t most, std::string_view what) {
    const std::string more = absl::StrCat("more than ", most);
    return Fail(LimitError(more, absl::StrCat(most),
                           absl::StrCat("the body has ", more, " ", std::string(what),
                                        "; the limit of a request is ", most, "; send less")));
  }
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  const BoundedValue& body_;
  const char* const* const read_;
  absl::Status status_;
  std::vector<Level> levels_;
  std::string field_;  // the key of the body that is being read
  std::optional<Excess> excess_;
  std::optional<size_t> text_level_;  // what is bounded by its bytes in the body
  int64_t values_ = 0;
};

absl::Status CheckBody(OpenAiApi api, std::string_view body) {
  const char* const end = body.data() + body.size();
  const char* read = body.data();
  BodyCheck check(BoundedBody(api), &read);
  const bool right = BodyJson::sax_parse(ReadPlace{.at = body.data(), .read = &read},
                                         ReadPlace{.at = end, .read = &read}, &check);
  return right ? absl::OkStatus() : check.status();
}

}  // namespace

absl::StatusOr<BodyJson> ParseJsonBody(OpenAiApi api, std::string_view body) {
  // The parser takes a zero byte for the end.
  if (const size_t zero = body.find('\0'); zero != body.npos) {
    return InvalidArgument(Reason::kNone, "", NotJson(zero + 1, "a zero byte"));
  }
  BATON_RETURN_IF_ERROR(CheckBody(api, body));
  BodyJson json = BodyJson::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return InvalidArgument(
      Reason::kNone, "",
      absl::StrCat("the body is JSON of the kind ", json.type_name(), "; expected an object"));
}

}  // namespace baton
