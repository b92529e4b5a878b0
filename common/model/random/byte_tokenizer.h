#pragma once

#include <string>

#include "common/base/ids.h"

namespace baton {

// The files of the tokenizer that random models have: byte-level BPE without merges, so that id b
// is byte b.
struct ByteTokenizer {
  static constexpr TokenId kBos = 256;  // "<|bos|>"
  static constexpr TokenId kEos = 257;  // "<|eos|>"
  static constexpr int32_t kSize = 258;

  static std::string TokenizerJson();
  // Holds a plain chat template.
  static std::string TokenizerConfigJson();
};

}  // namespace baton
