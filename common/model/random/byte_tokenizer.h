#pragma once

#include <string>

#include "common/base/ids.h"

namespace baton {

// The tokenizer of random models, as files: byte-level BPE without merges. Id b is byte b.
struct ByteTokenizer {
  static constexpr TokenId kBos = 256;  // "<|bos|>"
  static constexpr TokenId kEos = 257;  // "<|eos|>"
  static constexpr int32_t kSize = 258;

  static std::string TokenizerJson();
  // With a plain chat template.
  static std::string TokenizerConfigJson();
};

}  // namespace baton
