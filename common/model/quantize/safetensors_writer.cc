#include "common/model/quantize/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr size_t kHeaderAlignment = 64;

absl::Status NotWritten(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, " cannot be written: ", std::strerror(error),
                                             "; free space or name another place"));
}

// The length of the header, then the header, padded so that the data is aligned.
std::string HeaderOf(const std::vector<TensorToWrite>& tensors) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = json.dump();
  const size_t end = (text.size() + 8) % kHeaderAlignment;
  text.append((kHeaderAlignment - end) % kHeaderAlignment, ' ');
  const uint64_t length = text.size();  // little-endian, as this code's machines are
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header + text;
}

// Returns 0 or an errno.
int WriteAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<TensorToWrite>& tensors) {
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return NotWritten(path, errno);
  int64_t promised = 0;
  for (const TensorToWrite& tensor : tensors) promised += tensor.bytes;
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, file, promised));
  const std::string header = HeaderOf(tensors);
  if (const int error = WriteAll(file, std::as_bytes(std::span(header)))) {
    return NotWritten(path, error);
  }
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0) close(file_);
}

absl::Status SafetensorsWriter::Write(std::span<const std::byte> bytes) {
  if (const int error = WriteAll(file_, bytes)) return NotWritten(path_, error);
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Close() {
  BATON_CHECK(written_ == promised_) << written_ << " of " << promised_ << " bytes";
  int error = fsync(file_) == 0 ? 0 : errno;
  if (close(std::exchange(file_, -1)) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : NotWritten(path_, error);
}

}  // namespace baton
