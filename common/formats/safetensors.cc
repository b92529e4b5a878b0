#include "common/formats/safetensors.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/rust/rust_face.h"

namespace baton {
namespace {

constexpr size_t kLengthBytes = 8;  // the header's length stands first
constexpr size_t kLeastBytes = 10;  // of a file without tensors

StoredTensor FromRow(const BatonTensor& row, std::span<const std::byte> file) {
  StoredTensor tensor;
  tensor.name = rust::ViewOf(row.name);
  tensor.dtype = rust::ViewOf(row.dtype);
  tensor.shape.assign(row.shape, row.shape + row.rank);
  tensor.data = file.subspan(row.begin, row.end - row.begin);
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path, "safetensors", kLeastBytes));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(mapped)));
  BATON_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  BatonSafetensors* read = nullptr;
  BatonBuffer error;
  const BatonSlice whole = {reinterpret_cast<const uint8_t*>(bytes().data()), bytes().size()};
  const BatonStatus status = baton_safetensors_read(whole, &read, &error);
  if (status != BATON_OK) {
    const absl::Status failure = rust::TakeError(status, error);
    return absl::Status(failure.code(), path() + " is not a valid safetensors file: " +
                                            std::string(failure.message()) + "; download it again");
  }
  const rust::Handle<BatonSafetensors, baton_safetensors_free> header(read);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes().data(), kLengthBytes);
  header_bytes_ = header_bytes;
  const size_t count = baton_safetensors_count(header.get());
  tensors_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const BatonTensor row = baton_safetensors_tensor(header.get(), i);
    if (row.begin > row.end || row.end > bytes().size()) {
      return absl::InvalidArgumentError(path() + ": tensor " + std::string(rust::ViewOf(row.name)) +
                                        " lies outside the file; download it again");
    }
    tensors_.push_back(FromRow(row, bytes()));
    index_.emplace(tensors_.back().name, i);
  }
  return absl::OkStatus();
}

const StoredTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(absl::string_view(name.data(), name.size()));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string_view SafetensorsFile::header() const {
  return {reinterpret_cast<const char*>(bytes().data()) + kLengthBytes, header_bytes_};
}

}  // namespace baton
