// A model in one file: its header decides what is read where, its metadata become a config and a
// tokenizer.
#include <algorithm>
#include <span>
#include <string>

#include "common/formats/generation_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/tensor_specs.h"
#include "common/text/tokenizer.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

void CheckGgufTensors(const GgufFile& file, std::string_view input) {
  BATON_CHECK(input.starts_with(file.header())) << file.header().size();
  for (const GgufTensor& tensor : file.tensors()) {
    BATON_CHECK(file.FindTensor(tensor.name) == &tensor) << std::string(tensor.name);
    BATON_CHECK(std::ranges::all_of(tensor.shape, [](int64_t size) { return size > 0; }));
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    BATON_CHECK(elements / tensor.type->block * tensor.type->bytes ==
                static_cast<int64_t>(tensor.data.size()));
    // Every byte can be read, and is one of the file.
    const std::string_view data(reinterpret_cast<const char*>(tensor.data.data()),
                                tensor.data.size());
    BATON_CHECK(data.empty() || input.find(data) != input.npos);
  }
}

void CheckGgufTokenizer(const std::string& path) {
  const auto tokenizer = LoadTokenizer(path);
  if (!Accepted(tokenizer.status())) return;
  const auto ids = (*tokenizer)->Encode("Hello, <s> wörld!\n", true);
  if (!Accepted(ids.status())) return;
  for (const TokenId id : *ids) BATON_CHECK((*tokenizer)->IsValid(id)) << id;
}

}  // namespace

FUZZ_TARGET(gguf) {
  static const ScratchFolder folder;
  const std::string path = folder.Write("m.gguf", input);
  const auto file = GgufFile::Open(path);
  if (!Accepted(file.status())) return;
  CheckGgufTensors(**file, input);
  Accepted(LoadGenerationConfig(path).status());
  if (const auto text = ReadGgufText(**file); Accepted(text.status())) {
    for (const auto& [id, source] : text->ends) BATON_CHECK(id >= 0 && !source.empty()) << id;
  }
  CheckGgufTokenizer(path);
  const auto config = LoadModelConfig(path);
  if (!Accepted(config.status())) return;
  BATON_CHECK(config->heads % config->kv_heads == 0) << config->kv_heads;
  BATON_CHECK(config->windows.size() == static_cast<size_t>(config->layers)) << config->layers;
  const auto weights = CheckpointFiles::Open(path);
  if (!Accepted(weights.status())) return;
  Accepted(CheckTensors(*config, **weights));
}

}  // namespace baton::fuzz
