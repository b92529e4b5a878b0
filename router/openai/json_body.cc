#include "router/openai/json_body.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

constexpr size_t kMaxBodyDepth = 32;
// A value takes up to 16 times its bytes in memory, and a prompt may be given as ids.
constexpr int64_t kMaxBodyValues = int64_t{1} << 21;
constexpr size_t kExcerptBytes = 64;
// The library's code for one that no double can hold.
constexpr int kNumberTooLarge = 406;

std::string Excerpt(std::string_view text) {
  return absl::StrCat("'", absl::CHexEscape(std::string(text.substr(0, kExcerptBytes))),
                      text.size() > kExcerptBytes ? "…'" : "'");
}

std::string NotJson(size_t position, const std::string& near) {
  return absl::StrCat("the body is not JSON in UTF-8: at byte ", position, ", near ", near,
                      "; expected an object");
}

// Reads a body without keeping anything of it, and says what is wrong with it.
class BodyCheck final : public nlohmann::json_sax<BodyJson> {
 public:
  const absl::Status& status() const { return status_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return Fail(Reason::kNone, absl::StrCat("the key ", Excerpt(name),
                                            " stands twice in one object; give it once"));
  }

  bool parse_error(size_t position, const std::string& token,
                   const BodyJson::exception& error) override {
    if (error.id == kNumberTooLarge) {
      return Fail(Reason::kLimitExceeded,
                  absl::StrCat("the number ", Excerpt(token), ", which ends at byte ", position,
                               ", is too large; expected at most 1.8e308"));
    }
    return Fail(Reason::kNone, NotJson(position, Excerpt(token)));
  }

 private:
  bool Value() {
    if (++values_ <= kMaxBodyValues) return true;
    return Fail(Reason::kLimitExceeded,
                absl::StrCat("the body has more than ", kMaxBodyValues, " values; expected fewer"));
  }
  bool Open() {
    if (keys_.size() >= kMaxBodyDepth) {
      return Fail(Reason::kLimitExceeded, absl::StrCat("the body has more than ", kMaxBodyDepth,
                                                       " levels of objects and lists"));
    }
    keys_.emplace_back();
    return Value();
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }
  bool Fail(Reason reason, const std::string& message) {
    status_ = InvalidArgument(reason, "", message);
    return false;
  }

  absl::Status status_;
  std::vector<std::set<std::string>> keys_;  // of each object or list that is open
  int64_t values_ = 0;
};

}  // namespace

absl::StatusOr<BodyJson> ParseJsonBody(std::string_view body) {
  // The parser takes a zero byte for the end.
  if (const size_t zero = body.find('\0'); zero != body.npos) {
    return InvalidArgument(Reason::kNone, "", NotJson(zero + 1, "a zero byte"));
  }
  BodyCheck check;
  if (!BodyJson::sax_parse(body, &check)) return check.status();
  BodyJson json = BodyJson::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return InvalidArgument(
      Reason::kNone, "",
      absl::StrCat("the body is JSON of the kind ", json.type_name(), "; expected an object"));
}

}  // namespace baton
