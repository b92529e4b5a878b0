// Weights: the header of a .safetensors file, which decides what is read where.
#include <algorithm>
#include <span>

#include "common/formats/safetensors.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(safetensors) {
  static const ScratchFolder folder;
  const std::string path = folder.Write("model.safetensors", input);
  const auto file = SafetensorsFile::Open(path);
  if (!Accepted(file.status())) return;
  const std::string_view header = (*file)->header();
  BATON_CHECK(8 + header.size() <= input.size() && header == input.substr(8, header.size()));
  size_t bytes = 0;
  for (const StoredTensor& tensor : (*file)->tensors()) {
    BATON_CHECK((*file)->Find(tensor.name) == &tensor) << tensor.name;
    BATON_CHECK(std::ranges::all_of(tensor.shape, [](int64_t size) { return size >= 0; }));
    // Every byte can be read, and is where the next one in the file is.
    const std::string_view there = input.substr(8 + header.size() + bytes, tensor.data.size());
    BATON_CHECK(std::ranges::equal(std::as_bytes(std::span(there)), tensor.data)) << tensor.name;
    bytes += tensor.data.size();
  }
  BATON_CHECK(8 + header.size() + bytes == input.size()) << bytes << " bytes of tensors";
}

}  // namespace baton::fuzz
