// A file of a load cache: what is read from it has the checksums that it names.
#include <cstring>
#include <string>

#include "common/model/load_cache.h"
#include "common/model/tensor_specs.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

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
  const std::string path = folder.Write(key.FileName(), input);
  const auto reader = LoadCacheReader::Open(folder.path(), key);
  if (!Accepted(reader.status())) return;
  const auto file = SafetensorsFile::Open(path);
  BATON_CHECK(file.ok()) << file.status().ToString();
  BATON_CHECK((*reader)->data_bytes() <= std::ssize(input));
  ReadAll(reader->get(), **file);
}

}  // namespace baton::fuzz
