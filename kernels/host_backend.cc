#include "kernels/host_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/column_share.h"
#include "kernels/host_memory.h"
#include "kernels/step_check.h"

namespace baton::kernels {

HostBackend::HostBackend(BackendInfo info, Collective* collective)
    : info_(std::move(info)), collective_(collective), check_(info_.compute_dtype) {}

absl::StatusOr<std::unique_ptr<Buffer>> HostBackend::Allocate(size_t bytes) {
  return AllocateHost(bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> HostBackend::AllocateOnHost(size_t bytes) {
  return AllocateHost(bytes);
}

absl::Status HostBackend::Zero(Buffer& buffer) {
  std::memset(buffer.data(), 0, buffer.size());
  return absl::OkStatus();
}

absl::Status HostBackend::Upload(const void* host, size_t bytes, void* device) {
  std::memcpy(device, host, bytes);
  return absl::OkStatus();
}

absl::Status HostBackend::Download(const void* device, size_t bytes, void* host) {
  std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<DeviceMemorySize>> HostBackend::DeviceMemory() const {
  return std::optional<DeviceMemorySize>();
}

absl::StatusOr<std::unique_ptr<Buffer>> HostBackend::UploadVector(const HostTensor& vector) {
  return CopyConverted(vector, DType::kF32);
}

absl::StatusOr<std::unique_ptr<Buffer>> HostBackend::UploadTable(const HostTensor& table) {
  return CopyConverted(table, info_.compute_dtype);
}

absl::Status HostBackend::CopyBlocks(const PagedKv& from, const PagedKv& to,
                                     std::span<const BlockCopy> copies) {
  CheckCopies(from, to, copies);
  for (const BlockCopy& copy : copies) {
    std::memcpy(to.block(copy.to), from.block(copy.from), from.layout.block_bytes());
  }
  return absl::OkStatus();
}

absl::StatusOr<StepRows> HostBackend::BeginStep(const StepLayout& layout, const PagedKv& kv) {
  BATON_RETURN_IF_ERROR(CheckHostKv(kv.layout));
  BATON_RETURN_IF_ERROR(CheckStep(layout, kv));
  layout_ = layout;
  kv_ = kv;
  check_.BeginStep(RowsOf(layout), kv.layout);
  return RowsOf(layout);
}

absl::Status HostBackend::RunStep(uint64_t /*program*/, absl::FunctionRef<void()> operations) {
  operations();
  return absl::OkStatus();
}

void HostBackend::GatherSampled(Matrix in, Matrix out) {
  check_.GatherSampled(in, out);
  const size_t bytes = static_cast<size_t>(in.cols) * SizeOf(in.dtype);
  for (size_t row = 0; row < layout_.sample_rows.size(); ++row) {
    std::memmove(out.row(static_cast<int64_t>(row)), in.row(layout_.sample_rows[row]), bytes);
  }
}

void HostBackend::AllReduce(Matrix values) {
  check_.AllReduce(values);
  if (collective_ == nullptr || !fault_.empty()) return;
  fault_ = SumOverRanks(*collective_, values);
}

void HostBackend::GatherColumns(Matrix parts, Matrix out) {
  check_.GatherColumns(parts, out, info_.ranks);
  if (!fault_.empty()) return;
  if (collective_ != nullptr) fault_ = GatherOverRanks(*collective_, parts);
  for (int rank = 0; rank < info_.ranks && fault_.empty(); ++rank) {
    const ColumnShare share = ShareOfColumns(out.cols, rank, info_.ranks);
    const float* from = static_cast<const float*>(parts.row(rank));
    for (int64_t row = 0; row < out.rows; ++row, from += share.size()) {
      std::copy_n(from, share.size(), static_cast<float*>(out.row(row)) + share.begin);
    }
  }
}

void HostBackend::Fetch(Matrix values, std::span<float> host) {
  check_.Fetch(values, host);
  if (!host.empty()) std::memcpy(host.data(), values.data, host.size_bytes());
}

absl::Status HostBackend::EndStep() {
  if (fault_.empty()) return absl::OkStatus();
  return DeviceFault(std::exchange(fault_, {}));
}

}  // namespace baton::kernels
