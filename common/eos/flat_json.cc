#include "common/eos/flat_json.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Kind = FlatValue::Kind;
using Member = absl::FunctionRef<absl::Status(std::string& key, FlatValue& value)>;

absl::Status NotAnObject(size_t byte, std::string_view found) {
  return MakeError(absl::StatusCode::kInvalidArgument, {},
                   absl::StrCat("not JSON at byte ", byte, ": found ", std::string(found),
                                ", expected one object without objects or arrays in it"));
}

// Hears what the parser reads. Each answer says whether it may go on.
class Events final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Events(size_t line_size, Member member) : line_size_(line_size), member_(member) {}

  const absl::Status& status() const { return status_; }

  bool null() override {
    value_.kind = Kind::kNull;
    return Tell();
  }
  bool boolean(bool value) override {
    value_.kind = Kind::kBool;
    value_.boolean = value;
    return Tell();
  }
  bool number_integer(int64_t value) override {
    return Number(static_cast<double>(value), absl::StrCat(value));
  }
  bool number_unsigned(uint64_t value) override {
    return Number(static_cast<double>(value), absl::StrCat(value));
  }
  bool number_float(double value, const std::string& text) override { return Number(value, text); }
  bool string(std::string& text) override {
    value_.kind = Kind::kText;
    value_.text.swap(text);
    return Tell();
  }
  bool binary(nlohmann::json::binary_t& /*bytes*/) override { return false; }  // JSON has none
  bool key(std::string& name) override {
    key_.swap(name);
    return true;
  }
  bool start_object(size_t /*members*/) override {
    if (std::exchange(in_object_, true)) return Nested("{");
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t /*values*/) override { return Nested("["); }
  bool end_array() override { return true; }

  bool parse_error(size_t byte, const std::string& token,
                   const nlohmann::json::exception& /*why*/) override {
    const bool at_end = byte > line_size_;
    status_ = NotAnObject(byte, at_end ? "the end of the line" : "'" + ShownText(token) + "'");
    return false;
  }

 private:
  bool Tell() {
    status_ = in_object_ ? member_(key_, value_) : NotAnObject(1, ShownText(value_.Json()));
    return status_.ok();
  }

  bool Number(double number, std::string text) {
    value_.kind = Kind::kNumber;
    value_.number = number;
    value_.text = std::move(text);
    return Tell();
  }

  bool Nested(std::string_view bracket) {
    value_.kind = Kind::kNested;
    value_.text = bracket;
    if (Tell()) status_ = NotAnObject(1, key_ + ": " + value_.text);
    return false;
  }

  const size_t line_size_;
  const Member member_;
  bool in_object_ = false;
  std::string key_;
  FlatValue value_;
  absl::Status status_;
};

}  // namespace

std::string FlatValue::Json() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kText:
      return absl::StrCat("\"", text, "\"");
    case Kind::kNumber:
    case Kind::kNested:
      return text;
  }
  return "";
}

absl::Status ReadFlatJson(std::string_view line, Member member) {
  // The parser takes a zero byte for the end.
  if (const size_t zero = line.find('\0'); zero != line.npos) {
    return NotAnObject(zero + 1, "a zero byte");
  }
  // It passes over a byte order mark, too, which is no part of JSON.
  if (line.starts_with("\xef\xbb\xbf")) return NotAnObject(1, "a byte order mark");
  Events events(line.size(), member);
  nlohmann::json::sax_parse(line.begin(), line.end(), &events);
  return events.status();
}

}  // namespace baton
