#include "common/model/random/byte_tokenizer.h"

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kChatTemplate =
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

// The visible character that stands for a byte in GPT-2's alphabet: a printable one of Latin-1 as
// itself, the others from U+0100 on.
std::string ByteSymbol(int byte) {
  const auto visible = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!visible(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += visible(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

Json Special(TokenId id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string ByteTokenizer::TokenizerJson() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteSymbol(byte)] = byte;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", {Special(kBos, "<|bos|>"), Special(kEos, "<|eos|>")}},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"vocab", vocab},
                       {"merges", Json::array()}}}};
  return json.dump(1) + "\n";
}

std::string ByteTokenizer::TokenizerConfigJson() {
  const Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"bos_token", "<|bos|>"},
                     {"eos_token", "<|eos|>"},
                     {"add_bos_token", false},
                     {"chat_template", kChatTemplate}};
  return json.dump(2) + "\n";
}

}  // namespace baton
