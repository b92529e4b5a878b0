#include "common/model/fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/fnv128.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kWindows = 4;       // sampled per tensor, evenly spread
constexpr size_t kWindowBytes = 64;  // each

// The files beside the weights that decide what tokens mean and where a generation ends.
constexpr const char* kFiles[] = {"config.json", "generation_config.json", "tokenizer.json",
                                  "tokenizer_config.json"};

absl::Status AddFile(const std::string& path, Fnv128& hash) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
    hash.Add(std::string_view("absent"));
    return absl::OkStatus();
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  hash.Add(std::string_view(text.str()));
  return absl::OkStatus();
}

void AddSamples(const StoredTensor& tensor, Fnv128& hash) {
  hash.Add(std::string_view(tensor.name));
  const size_t size = tensor.data.size();
  if (size <= kWindows * kWindowBytes) {
    hash.Add(tensor.data);
    return;
  }
  for (size_t i = 0; i < kWindows; ++i) {
    hash.Add(tensor.data.subspan((size - kWindowBytes) * i / (kWindows - 1), kWindowBytes));
  }
}

}  // namespace

absl::StatusOr<std::string> ModelFingerprint(const std::string& model_dir,
                                             const CheckpointFiles& files,
                                             kernels::DType compute_dtype) {
  Fnv128 hash;
  hash.Add(kernels::Name(compute_dtype));
  for (const char* name : kFiles) {
    BATON_RETURN_IF_ERROR(AddFile(model_dir + "/" + name, hash));
  }
  for (const std::string_view header : files.headers()) hash.Add(header);
  for (const StoredTensor* tensor : files.tensors()) AddSamples(*tensor, hash);
  return hash.Hex();
}

}  // namespace baton
