#include "common/text/text_fingerprint.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fnv128.h"

namespace baton {

absl::StatusOr<std::string> TextFingerprint(const std::string& model_dir, int32_t vocab_size,
                                            const std::vector<EosSetEntry>& eos) {
  Fnv128 hash;
  const std::string path = model_dir + "/tokenizer.json";
  if (std::filesystem::exists(path)) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
    hash.Add(std::string_view(text.str()));
  }
  std::set<TokenId> ids;  // the same set in any order is the same
  for (const EosSetEntry& entry : eos) ids.insert(entry.id);
  hash.Add(std::string_view(absl::StrCat(vocab_size, ":", absl::StrJoin(ids, ","))));
  return hash.Hex();
}

}  // namespace baton
