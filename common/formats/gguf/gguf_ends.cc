#include "common/formats/gguf/gguf_ends.h"

#include <algorithm>

namespace baton {
namespace {

// Ends an answer, but only a channel of one in formats that have one of the pairs.
constexpr std::string_view kChannelEnd = "<|end|>";
constexpr std::string_view kChannelPairs[][2] = {{"<|return|>", "<|call|>"},
                                                 {"<|flush|>", "<|calls|>"}};

// Files name one of them as their end, models may draw another.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|eom_id|>",
                                          "<|im_end|>",
                                          kChannelEnd,
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<|end_of_text|>",
                                          "<|endoftext|>",
                                          "<end_of_turn>",
                                          "<turn|>",
                                          "<end_of_utterance>",
                                          "<｜end▁of▁sentence｜>",
                                          "</s>",
                                          "<eos>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "[e~["};

}  // namespace

std::vector<TokenId> GgufEndsByText(const absl::flat_hash_map<std::string_view, TokenId>& ids) {
  const bool channels = std::ranges::any_of(kChannelPairs, [&](const auto& pair) {
    return ids.contains(pair[0]) && ids.contains(pair[1]);
  });
  std::vector<TokenId> ends;
  for (const std::string_view text : kEndTexts) {
    const auto found = ids.find(text);
    if (found == ids.end() || (channels && text == kChannelEnd)) continue;
    ends.push_back(found->second);
  }
  return ends;
}

}  // namespace baton
