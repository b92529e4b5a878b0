// tokenizer.json, and behind lines "%%" a text to encode and the files beside it that name tokens:
// tokenizer_config.json, special_tokens_map.json and added_tokens.json. An empty one is not there.
#include <filesystem>
#include <string>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

void CheckIds(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    BATON_CHECK(id >= 0 && id < tokenizer.vocab_size()) << id;
    BATON_CHECK(tokenizer.IsValid(id)) << id;
    const auto found = tokenizer.TokenToId(tokenizer.TokenText(id));
    BATON_CHECK(found.has_value()) << id << " is called " << tokenizer.TokenText(id);
  }
  tokenizer.Decode(ids, /*skip_special_tokens=*/false);
  tokenizer.Decode(ids, /*skip_special_tokens=*/true);
}

}  // namespace

FUZZ_TARGET(tokenizer) {
  static const ScratchFolder folder;
  folder.Write("tokenizer.json", TakeSection(&input));
  const std::string text(TakeSection(&input));
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const std::string_view file = TakeSection(&input);
    const std::string path = folder.Write(name, file);
    if (file.empty()) std::filesystem::remove(path);
  }
  const auto tokenizer = LoadTokenizer(folder.path());
  if (!Accepted(tokenizer.status())) return;
  BATON_CHECK(!(*tokenizer)->IsValid(-1) && !(*tokenizer)->IsValid((*tokenizer)->vocab_size()));
  for (const bool add_special_tokens : {false, true}) {
    const auto ids = (*tokenizer)->Encode(text, add_special_tokens);
    if (!Accepted(ids.status())) continue;
    CheckIds(**tokenizer, *ids);
    BATON_CHECK(*(*tokenizer)->Encode(text, add_special_tokens) == *ids);
  }
}

}  // namespace baton::fuzz
