#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/operation_check.h"

namespace baton::kernels {

// What every backend shares whose buffers lie in the host's memory: that memory, the step that
// runs, and the operations that only move or add values. The math is left to the class that derives
// from it.
class HostBackend : public Backend {
 public:
  const BackendInfo& info() const final { return info_; }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) final;
  absl::StatusOr<std::unique_ptr<Buffer>> AllocateOnHost(size_t bytes) final;
  absl::Status Zero(Buffer& buffer) override;
  absl::Status Upload(const void* host, size_t bytes, void* device) final;
  absl::Status Download(const void* device, size_t bytes, void* host) final;
  absl::StatusOr<std::optional<DeviceMemorySize>> DeviceMemory() const final;
  absl::StatusOr<std::unique_ptr<Buffer>> UploadVector(const HostTensor& vector) final;
  absl::StatusOr<std::unique_ptr<Buffer>> UploadTable(const HostTensor& table) final;
  bool CanEmbedFromPacked() const final { return true; }
  absl::Status CopyBlocks(const PagedKv& from, const PagedKv& to,
                          std::span<const BlockCopy> copies) final;
  absl::StatusOr<StepRows> BeginStep(const StepLayout& layout, const PagedKv& kv) override;
  absl::Status RunStep(uint64_t program, absl::FunctionRef<void()> operations) final;
  void GatherSampled(Matrix in, Matrix out) final;
  void AllReduce(Matrix values) final;
  void GatherColumns(Matrix parts, Matrix out) final;
  void Fetch(Matrix values, std::span<float> host) final;
  absl::Status EndStep() final;

 protected:
  // `collective` is null for a backend without a group, and outlives this otherwise.
  HostBackend(BackendInfo info, Collective* collective);

  const OperationCheck& check() const { return check_; }
  // Of the step that began last.
  const StepLayout& layout() const { return layout_; }
  const PagedKv& kv() const { return kv_; }

 private:
  const BackendInfo info_;
  Collective* const collective_;
  OperationCheck check_;
  StepLayout layout_;
  PagedKv kv_;
  std::string fault_;  // what went wrong first in the running step, or ""
};

}  // namespace baton::kernels
