#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/gguf/gguf_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_names.h"
#include "common/formats/json_reader.h"
#include "common/formats/mapped_file.h"
#include "common/formats/safetensors.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string>;  // tensor -> file name

// Whether the index names a file inside the model directory. Anything else could reach the rest of
// the machine.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

absl::StatusOr<WeightMap> ReadIndex(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(OpenFailure(path, errno, "check its rights"));
  const auto refuse = [&path](const std::string& what) {
    return absl::InvalidArgumentError(path + ": " + what);
  };
  std::stringstream text;
  text << file.rdbuf();
  BATON_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text.str(), path));
  const auto entries = index.find("weight_map");
  if (entries == index.end() || !entries->is_object()) {
    return refuse("there is no object \"weight_map\"");
  }
  WeightMap weight_map;
  for (const auto& [tensor, shard] : entries->items()) {
    if (!shard.is_string()) return refuse("the file of tensor " + tensor + " is not a string");
    const auto& name = shard.get_ref<const std::string&>();
    if (!IsPlainFileName(name)) {
      return refuse("tensor " + tensor + " is in \"" + name +
                    "\"; expected a file name inside the model directory");
    }
    weight_map.emplace(tensor, name);
  }
  if (weight_map.empty()) return refuse("\"weight_map\" is empty");
  return weight_map;
}

// Checks both directions: each tensor of the index stands in the shard it names, and no shard has
// others.
absl::Status CheckShards(const std::string& index_path, const WeightMap& weight_map,
                         const std::map<std::string, const SafetensorsFile*>& shards) {
  for (const auto& [tensor, shard] : weight_map) {
    if (shards.at(shard)->Find(tensor) == nullptr) {
      return absl::InvalidArgumentError(index_path + " places tensor " + tensor + " in " + shard +
                                        ", which does not contain it; download them again");
    }
  }
  for (const auto& [shard, file] : shards) {
    for (const StoredTensor& tensor : file->tensors()) {
      const auto entry = weight_map.find(tensor.name);
      if (entry == weight_map.end() || entry->second != shard) {
        return absl::InvalidArgumentError(shard + " contains tensor " + tensor.name + ", which " +
                                          index_path +
                                          " does not place there; download them again");
      }
    }
  }
  return absl::OkStatus();
}

// The whole pages inside a tensor, or a part of one: its first and last may be shared with its
// neighbours.
std::span<std::byte> WholePages(std::span<const std::byte> data) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + data.size()) / page * page;
  if (last <= first) return {};
  return {reinterpret_cast<std::byte*>(first), last - first};
}

}  // namespace

CheckpointFiles::CheckpointFiles() = default;
CheckpointFiles::~CheckpointFiles() = default;

absl::StatusOr<std::unique_ptr<CheckpointFiles>> CheckpointFiles::Open(const std::string& model) {
  std::unique_ptr<CheckpointFiles> checkpoint(new CheckpointFiles());
  if (IsGgufPath(model)) {
    BATON_RETURN_IF_ERROR(checkpoint->OpenGguf(model));
    checkpoint->Index();
    return checkpoint;
  }
  const std::string& model_dir = model;
  const std::string single = model_dir + "/" + kSingleFile;
  const std::string index = model_dir + "/" + kIndexFile;
  if (IsThere(single)) {
    BATON_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(single));
    checkpoint->files_.push_back(std::move(file));
  } else if (IsThere(index)) {
    BATON_RETURN_IF_ERROR(checkpoint->OpenShards(model_dir, index));
  } else {
    return absl::NotFoundError(model_dir + " has neither " + kSingleFile + " nor " + kIndexFile +
                               "; name a .gguf file itself, and convert other formats to "
                               "safetensors first");
  }
  checkpoint->Index();
  return checkpoint;
}

absl::Status CheckpointFiles::OpenShards(const std::string& model_dir, const std::string& index) {
  BATON_ASSIGN_OR_RETURN(const WeightMap weight_map, ReadIndex(index));
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : weight_map) {
    if (shards.contains(shard)) continue;
    auto file = SafetensorsFile::Open(model_dir + "/" + shard);
    if (absl::IsNotFound(file.status()) && !IsThere(model_dir + "/" + shard)) {
      return absl::InvalidArgumentError(index + " names " + shard +
                                        ", which is missing; download it again");
    }
    if (!file.ok()) return std::move(file).status();
    shards.emplace(shard, file->get());
    files_.push_back(*std::move(file));
  }
  std::sort(files_.begin(), files_.end(),
            [](const auto& a, const auto& b) { return a->path() < b->path(); });
  return CheckShards(index, weight_map, shards);
}

absl::Status CheckpointFiles::OpenGguf(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(gguf_, GgufFile::Open(path));
  BATON_ASSIGN_OR_RETURN(const GgufHeads heads, ReadGgufHeads(*gguf_));
  for (const GgufTensor& tensor : gguf_->tensors()) {
    // The frequencies of the rotation are a part of the model's configuration.
    if (tensor.name == kGgufRopeFactors) continue;
    StoredTensor stored = {.name = NameOfGgufTensor(tensor.name),
                           .dtype = std::string(tensor.type->name),
                           .shape = tensor.shape,
                           .data = tensor.data};
    if (GgufNameOfTensor(stored.name) != tensor.name) {
      return gguf_->Refuse("tensor " + ShownGgufName(stored.name) +
                           " has a name of safetensors; expected " + NameInFile(stored.name) +
                           ": convert the model again");
    }
    const int32_t count = heads.alternate ? heads.CountIn(tensor.name) : 0;
    if (count > 0 && !tensor.shape.empty() && tensor.shape[0] % (2 * int64_t{count}) == 0) {
      stored.head_rows = tensor.shape[0] / count;
    }
    gguf_tensors_.push_back(std::move(stored));
  }
  return absl::OkStatus();
}

void CheckpointFiles::Index() {
  for (const StoredTensor& tensor : gguf_tensors_) {
    tensors_.push_back(&tensor);
    data_bytes_ += static_cast<int64_t>(tensor.data.size());
  }
  for (const auto& file : files_) {
    for (const StoredTensor& tensor : file->tensors()) {
      tensors_.push_back(&tensor);
      data_bytes_ += static_cast<int64_t>(tensor.data.size());
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor* a, const StoredTensor* b) { return a->name < b->name; });
}

std::vector<std::string> CheckpointFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file->path());
  if (gguf_ != nullptr) paths.push_back(gguf_->path());
  return paths;
}

std::vector<std::string_view> CheckpointFiles::headers() const {
  std::vector<std::string_view> headers;
  for (const auto& file : files_) headers.push_back(file->header());
  if (gguf_ == nullptr) return headers;
  headers.push_back(gguf_->header());
  if (const GgufTensor* factors = gguf_->FindTensor(kGgufRopeFactors)) {
    headers.emplace_back(reinterpret_cast<const char*>(factors->data.data()), factors->data.size());
  }
  return headers;
}

std::string CheckpointFiles::NameInFile(const std::string& name) const {
  return gguf_ != nullptr ? ShownGgufName(GgufNameOfTensor(name)) : name;
}

const StoredTensor* CheckpointFiles::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const StoredTensor* tensor, std::string_view wanted) { return tensor->name < wanted; });
  return found != tensors_.end() && (*found)->name == name ? *found : nullptr;
}

void CheckpointFiles::Prefetch(const StoredTensor& tensor) {
  const std::span<std::byte> pages = WholePages(tensor.data);
  if (!pages.empty()) madvise(pages.data(), pages.size(), MADV_WILLNEED);
}

void CheckpointFiles::DropPages(std::span<const std::byte> data) {
  const std::span<std::byte> pages = WholePages(data);
  if (!pages.empty()) madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

}  // namespace baton
