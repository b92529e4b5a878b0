// tokenizer.json, and behind a line "%%" a text to encode.
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
  const auto tokenizer = LoadTokenizerFile(folder.Write("tokenizer.json", TakeSection(&input)));
  if (!Accepted(tokenizer.status())) return;
  BATON_CHECK(!(*tokenizer)->IsValid(-1) && !(*tokenizer)->IsValid((*tokenizer)->vocab_size()));
  for (const bool add_special_tokens : {false, true}) {
    const auto ids = (*tokenizer)->Encode(input, add_special_tokens);
    if (!Accepted(ids.status())) continue;
    CheckIds(**tokenizer, *ids);
    BATON_CHECK(*(*tokenizer)->Encode(input, add_special_tokens) == *ids);
  }
}

}  // namespace baton::fuzz
