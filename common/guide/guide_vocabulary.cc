#include "common/guide/guide_vocabulary.h"

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

GuideVocabulary::GuideVocabulary(Handle handle, size_t words, std::span<const TokenId> eos_ids)
    : handle_(std::move(handle)), words_(words), eos_mask_(words) {
  for (const TokenId id : eos_ids) {
    const auto bit = static_cast<size_t>(id);
    eos_mask_[bit / kMaskWordBits] |= uint32_t{1} << (bit % kMaskWordBits);
  }
}

absl::StatusOr<std::unique_ptr<GuideVocabulary>> GuideVocabulary::Make(
    const Tokenizer& tokenizer, int32_t width, std::span<const TokenId> eos_ids) {
  std::vector<BatonToken> tokens(static_cast<size_t>(width));
  for (TokenId id = 0; id < width; ++id) {
    tokens[static_cast<size_t>(id)] = {
        .text = rust::SliceOf(tokenizer.TokenText(id)),
        .bytes = rust::SliceOf(tokenizer.TokenBytes(id)),
        .valid = static_cast<uint8_t>(tokenizer.IsValid(id) ? 1 : 0),
        .special = static_cast<uint8_t>(tokenizer.IsSpecial(id) ? 1 : 0)};
  }
  const std::vector<uint32_t> eos(eos_ids.begin(), eos_ids.end());
  BatonGuideVocabulary* made = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_guide_vocabulary_new(tokens.data(), tokens.size(), eos.data(),
                                                        eos.size(), &made, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  const size_t words = (tokens.size() + kMaskWordBits - 1) / kMaskWordBits;
  return std::unique_ptr<GuideVocabulary>(new GuideVocabulary(Handle(made), words, eos_ids));
}

absl::StatusOr<std::shared_ptr<const CompiledGuide>> GuideVocabulary::Compile(
    const GuideSpec& guide) const {
  BatonGuide* compiled = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_guide_compile(handle_.get(), NumberOf(guide.kind),
                                                 rust::SliceOf(guide.text), &compiled, &error);
  if (status == BATON_INVALID) return InvalidGuide(guide.kind, rust::TakeString(error));
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::make_shared<const CompiledGuide>(compiled);
}

}  // namespace baton
