#include "common/text/text_fingerprint.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fnv128.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/rust/rust_face.h"

namespace baton {
namespace {

// Empty where tokenizer.json says all itself: what the other files say of chats and lengths may
// differ between a router and a worker.
absl::StatusOr<std::string> TokensBeside(const std::string& model_dir) {
  BatonBuffer changes;
  BatonBuffer error;
  const BatonStatus status = baton_tokenizer_changes(rust::SliceOf(model_dir), &changes, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  return rust::TakeString(changes);
}

}  // namespace

absl::StatusOr<std::string> TextFingerprint(const std::string& model, int32_t vocab_size,
                                            const std::vector<EosSetEntry>& eos) {
  Fnv128 hash;
  if (IsGgufPath(model)) {
    BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(model));
    for (const std::string_view part : GgufTokenizerBytes(*file)) hash.Add(part);
  }
  const std::string path = model + "/tokenizer.json";
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
    hash.Add(std::string_view(text.str()));
    BATON_ASSIGN_OR_RETURN(const std::string changes, TokensBeside(model));
    if (!changes.empty()) hash.Add(std::string_view(changes));
  }
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  std::set<TokenId> ids;  // the same set in any order is the same
  for (const EosSetEntry& entry : eos) ids.insert(entry.id);
  hash.Add(std::string_view(absl::StrCat(vocab_size, ":", absl::StrJoin(ids, ","))));
  return hash.Hex();
}

}  // namespace baton
