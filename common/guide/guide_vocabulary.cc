#include "common/guide/guide_vocabulary.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kMaskWordBits = 32;

BatonGuideKind NumberOf(GuideKind kind) {
  switch (kind) {
    case GuideKind::kJsonObject:
      return BATON_GUIDE_JSON_OBJECT;
    case GuideKind::kRegex:
      return BATON_GUIDE_REGEX;
    case GuideKind::kChoice:
      return BATON_GUIDE_CHOICE;
    case GuideKind::kGrammar:
      return BATON_GUIDE_GRAMMAR;
    default:
      return BATON_GUIDE_JSON_SCHEMA;
  }
}

bool GoesOnWithACharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// `text` without the beginning of a character that may stand at its end; nothing where it begins
// within a character.
std::string_view WholeCharacters(std::string_view text) {
  constexpr size_t kLongest = 4;
  if (!text.empty() && GoesOnWithACharacter(text.front())) return {};
  for (size_t tail = 1; tail <= std::min(kLongest, text.size()); ++tail) {
    if (GoesOnWithACharacter(text[text.size() - tail])) continue;
    const auto byte = static_cast<unsigned char>(text[text.size() - tail]);
    const size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if (length > tail) text.remove_suffix(tail);
    break;
  }
  return text;
}

absl::Status NotCompiledNow(GuideKind kind, std::string_view why) {
  const std::string field(GuideFieldName(kind));
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kFull, .field = field, .retry_after = std::chrono::milliseconds(1000)},
      absl::StrCat(field, " could not be compiled now, because this machine is too ",
                   "busy: ", std::string(why), "; try again later"));
}

}  // namespace

absl::Status InvalidGuide(GuideKind kind, std::string_view why) {
  const std::string field(GuideFieldName(kind));
  return InvalidArgument(Reason::kInvalidGuide, field,
                         absl::StrCat(field, " cannot guide an answer: ", std::string(why)));
}

absl::StatusOr<CompiledGuide::State> CompiledGuide::Start() const {
  BatonGuideState* state = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_guide_start(guide_.get(), &state, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  return State(state);
}

GuideVocabulary::GuideVocabulary(Handle handle, std::shared_ptr<const Tokenizer> tokenizer,
                                 int32_t width, std::span<const TokenId> eos_ids)
    : handle_(std::move(handle)),
      tokenizer_(std::move(tokenizer)),
      width_(width),
      words_((static_cast<size_t>(width) + kMaskWordBits - 1) / kMaskWordBits),
      eos_mask_(words_) {
  for (const TokenId id : eos_ids) {
    const auto bit = static_cast<size_t>(id);
    eos_mask_[bit / kMaskWordBits] |= uint32_t{1} << (bit % kMaskWordBits);
  }
  for (TokenId id = 0; id < width_; ++id) {
    if (IsText(id)) spellings_.push_back(tokenizer_->TokenBytes(id));
  }
  std::ranges::sort(spellings_);
}

absl::StatusOr<std::unique_ptr<GuideVocabulary>> GuideVocabulary::Make(
    std::shared_ptr<const Tokenizer> tokenizer, int32_t width, std::span<const TokenId> eos_ids) {
  std::vector<BatonToken> tokens(static_cast<size_t>(width));
  for (TokenId id = 0; id < width; ++id) {
    tokens[static_cast<size_t>(id)] = {
        .text = rust::SliceOf(tokenizer->TokenText(id)),
        .bytes = rust::SliceOf(tokenizer->TokenBytes(id)),
        .valid = static_cast<uint8_t>(tokenizer->IsValid(id) ? 1 : 0),
        .special = static_cast<uint8_t>(tokenizer->IsSpecial(id) ? 1 : 0)};
  }
  const std::vector<uint32_t> eos(eos_ids.begin(), eos_ids.end());
  BatonGuideVocabulary* made = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_guide_vocabulary_new(tokens.data(), tokens.size(), eos.data(),
                                                        eos.size(), &made, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::unique_ptr<GuideVocabulary>(
      new GuideVocabulary(Handle(made), std::move(tokenizer), width, eos_ids));
}

bool GuideVocabulary::IsText(TokenId id) const {
  return id < width_ && tokenizer_->IsValid(id) && !tokenizer_->IsSpecial(id) &&
         !tokenizer_->TokenBytes(id).empty();
}

// What begins with `bytes` and is longer stands right behind them in the order.
bool GuideVocabulary::Continues(std::string_view bytes) const {
  const auto longer = std::ranges::upper_bound(spellings_, bytes);
  return longer != spellings_.end() && longer->starts_with(bytes);
}

// The token with which `text` begins where the tokenizer writes it behind `before`, which is the
// one token `id` (-1: nothing stands before it). None where that is not how it writes them.
std::optional<TokenId> GuideVocabulary::FirstTokenAfter(std::string_view before,
                                                        std::string_view text, TokenId id) const {
  std::string joined(before);
  joined += text;
  const auto ids = tokenizer_->Encode(joined, /*add_special_tokens=*/false);
  const size_t place = id < 0 ? 0 : 1;
  if (!ids.ok() || ids->size() <= place || (id >= 0 && ids->front() != id)) return std::nullopt;
  const TokenId first = (*ids)[place];
  if (!IsText(first) || !text.starts_with(tokenizer_->TokenBytes(first))) return std::nullopt;
  return first;
}

std::optional<TokenId> GuideVocabulary::FirstTokenOf(std::string_view bytes, TokenId before) const {
  const std::string_view text = WholeCharacters(bytes.substr(0, kForcedWindow));
  if (text.empty()) return std::nullopt;
  std::optional<TokenId> first;
  if (before >= 0 && IsText(before)) {
    first = FirstTokenAfter(tokenizer_->TokenBytes(before), text, before);
  }
  if (!first) first = FirstTokenAfter("", text, -1);
  if (!first) return std::nullopt;
  const size_t length = tokenizer_->TokenBytes(*first).size();
  for (size_t begin = 0; begin < length; ++begin) {
    if (Continues(text.substr(begin))) return std::nullopt;
  }
  return first;
}

absl::StatusOr<std::shared_ptr<const CompiledGuide>> GuideVocabulary::Compile(
    const GuideSpec& guide) const {
  BatonGuide* compiled = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_guide_compile(handle_.get(), NumberOf(guide.kind),
                                                 rust::SliceOf(guide.text), &compiled, &error);
  if (status == BATON_INVALID) return InvalidGuide(guide.kind, rust::TakeString(error));
  if (status == BATON_BUSY) return NotCompiledNow(guide.kind, rust::TakeString(error));
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::make_shared<const CompiledGuide>(compiled);
}

}  // namespace baton
