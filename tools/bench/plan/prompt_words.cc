#include "tools/bench/plan/prompt_words.h"

#include <algorithm>
#include <array>

#include "common/base/philox.h"
#include "tools/bench/plan/draws.h"

namespace baton::bench {
namespace {

// Appends words [begin, begin + count) of the sequence that `name` has for `purpose`.
void Append(uint64_t seed, Purpose purpose, uint64_t name, int64_t begin, int64_t count,
            std::vector<uint32_t>* words) {
  std::array<uint32_t, 4> four{};
  for (int64_t i = begin; i < begin + count; ++i) {
    if (i == begin || i % 4 == 0) {
      four = base::Philox4x32({static_cast<uint32_t>(i / 4), static_cast<uint32_t>(name),
                               static_cast<uint32_t>(name >> 32), static_cast<uint32_t>(purpose)},
                              seed);
    }
    words->push_back(four[static_cast<size_t>(i % 4)]);
  }
}

}  // namespace

std::vector<uint32_t> PromptWords(uint64_t seed, const PromptSharing& sharing,
                                  const PromptSpec& spec, int64_t count) {
  std::vector<uint32_t> words;
  words.reserve(static_cast<size_t>(count));
  Append(seed, Purpose::kSharedPrefix, 0, 0, std::min<int64_t>(sharing.prefix_tokens, count),
         &words);
  const int64_t block = sharing.block_tokens;
  while (static_cast<int64_t>(words.size()) < count) {
    const int64_t at = static_cast<int64_t>(words.size());
    const auto ordinal = static_cast<size_t>(at / block);
    if (ordinal >= spec.hash_ids.size()) break;
    const int64_t within = at % block;
    Append(seed, Purpose::kHashBlock, spec.hash_ids[ordinal], within,
           std::min(block - within, count - at), &words);
  }
  const int64_t at = static_cast<int64_t>(words.size());
  Append(seed, Purpose::kPrompt, static_cast<uint64_t>(spec.index), at, count - at, &words);
  return words;
}

}  // namespace baton::bench
