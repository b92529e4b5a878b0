// A file of a load cache: what is read from it has the checksums that it names.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/model/load_cache.h"
#include "common/model/tensor_specs.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

// The corpus has this word in place of the identity, which changes with every version of the
// format.
constexpr std::string_view kIdentityWord = "@identity@";

// The file with `identity` for that word; its header becomes longer, and begins with its length.
std::string WithIdentity(std::string file, const std::string& identity) {
  uint64_t header = 0;
  const size_t at = file.find(kIdentityWord);
  if (at == std::string::npos || at < sizeof(header)) return file;
  std::memcpy(&header, file.data(), sizeof(header));
  const size_t more = (identity.size() - kIdentityWord.size() + 7) / 8 * 8;
  file.replace(at, kIdentityWord.size(), identity);
  // The rest of the eight bytes are spaces, where JSON may have them, so that tensors stay aligned.
  const size_t begin = file.find('{', sizeof(header));
  if (begin < at) file.insert(begin + 1, more + kIdentityWord.size() - identity.size(), ' ');
  header += more;
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

// Believes only what it must; the same file is opened beside the reader to know its tensors.
void ReadAll(LoadCacheReader* reader, const SafetensorsFile& file) {
  for (const StoredTensor& stored : file.tensors()) {
    const auto dtype = TensorDType(stored);
    if (!dtype.ok() || stored.shape.size() != 2) continue;
    const auto read = reader->Read(stored.name, *dtype, stored.shape[0], stored.shape[1]);
    if (!Accepted(read.status())) {
      BATON_CHECK(absl::IsDataLoss(read.status())) << read.status().ToString();
      continue;
    }
    BATON_CHECK(std::memcmp(read->data, stored.data.data(), stored.data.size()) == 0);
    BATON_CHECK(reinterpret_cast<uintptr_t>(read->data) % SizeOf(*dtype) == 0);
    reader->Drop(stored.name);
  }
}

}  // namespace

FUZZ_TARGET(load_cache) {
  static const ScratchFolder folder;
  const LoadCacheKey key = {.fingerprint = "model", .checkpoint = "files"};
  const std::string path =
      folder.Write(key.FileName(), WithIdentity(std::string(input), key.Identity()));
  const auto reader = LoadCacheReader::Open(folder.path(), key);
  if (!Accepted(reader.status())) return;
  const auto file = SafetensorsFile::Open(path);
  BATON_CHECK(file.ok()) << file.status().ToString();
  BATON_CHECK((*reader)->data_bytes() <= std::ssize(input));
  ReadAll(reader->get(), **file);
}

}  // namespace baton::fuzz
