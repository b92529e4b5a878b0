#include "kernels/cuda/memory/host_copies.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton::kernels::cuda {

absl::StatusOr<std::unique_ptr<HostCopies>> HostCopies::Create(int device, size_t most_bytes) {
  BATON_RETURN_IF_ERROR(SelectDevice(device));
  BATON_ASSIGN_OR_RETURN(Stream stream, Stream::Create());
  BATON_ASSIGN_OR_RETURN(auto staging, PinnedMemory::Allocate(most_bytes));
  return std::unique_ptr<HostCopies>(new HostCopies(device, std::move(stream), std::move(staging)));
}

absl::Status HostCopies::CheckSize(size_t bytes) const {
  if (bytes <= staging_->size()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("a copy of ", bytes, " bytes by a staging buffer of ", staging_->size()));
}

absl::Status HostCopies::Read(const void* device, std::span<std::byte> host) {
  const std::span from(static_cast<const std::byte*>(device), host.size());
  return Read({&from, 1}, host);
}

absl::Status HostCopies::Write(std::span<const std::span<const std::byte>> parts, void* device) {
  size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  const std::span to(static_cast<std::byte*>(device), bytes);
  return Write(parts, {&to, 1});
}

absl::Status HostCopies::Read(std::span<const std::span<const std::byte>> device,
                              std::span<std::byte> host) {
  BATON_RETURN_IF_ERROR(CheckSize(host.size()));
  base::MutexLock lock(&mutex_);
  BATON_RETURN_IF_ERROR(SelectDevice(device_));
  std::byte* to = static_cast<std::byte*>(staging_->data());
  for (const auto& part : device) {
    BATON_RETURN_IF_ERROR(CopyToHost(to, part.data(), part.size(), stream_.handle()));
    to += part.size();
  }
  BATON_RETURN_IF_ERROR(stream_.Synchronize());
  std::memcpy(host.data(), staging_->data(), host.size());
  return absl::OkStatus();
}

absl::Status HostCopies::Write(std::span<const std::span<const std::byte>> host,
                               std::span<const std::span<std::byte>> device) {
  size_t bytes = 0;
  for (const auto& part : host) bytes += part.size();
  BATON_RETURN_IF_ERROR(CheckSize(bytes));
  base::MutexLock lock(&mutex_);
  BATON_RETURN_IF_ERROR(SelectDevice(device_));
  std::byte* to = static_cast<std::byte*>(staging_->data());
  for (const auto& part : host) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  const std::byte* from = static_cast<const std::byte*>(staging_->data());
  absl::Status status;
  for (const auto& part : device) {
    status.Update(CopyToDevice(part.data(), from, part.size(), stream_.handle()));
    from += part.size();
  }
  // It waits after an error, too: once this has returned, nothing that was queued writes a block.
  status.Update(stream_.Synchronize());
  return status;
}

absl::StatusOr<StreamHandle> HostCopies::StreamOn(int device) {
  BATON_RETURN_IF_ERROR(SelectDevice(device));
  if (device == device_) return stream_.handle();
  const auto found = elsewhere_.find(device);
  if (found != elsewhere_.end()) return found->second.handle();
  BATON_ASSIGN_OR_RETURN(Stream made, Stream::Create());
  return elsewhere_.emplace(device, std::move(made)).first->second.handle();
}

absl::Status HostCopies::ZeroRows(void* device, size_t pitch, size_t width, size_t rows) {
  BATON_ASSIGN_OR_RETURN(const int owner, DeviceOf(device));
  base::MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(const StreamHandle stream, StreamOn(owner));
  absl::Status zeroed = FillRows(device, pitch, 0, width, rows, stream);
  if (zeroed.ok()) zeroed = WaitFor(stream);
  BATON_RETURN_IF_ERROR(SelectDevice(device_));  // as the other calls leave it
  return zeroed;
}

}  // namespace baton::kernels::cuda
