#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace baton::test {

// Lets a backend of the host behave like that of a GPU: it keeps the last id of every slot to
// itself, feeds it to later steps, and shows results only when EndStep asks for them. `inner`
// computes.
class QueuedBackend final : public kernels::Backend {
 public:
  // Claims to capture decode steps of so many rows; it repeats none.
  explicit QueuedBackend(kernels::Backend* inner, int max_captured_rows = 0);

  // How many ids steps fed by naming the slot that drew them, and how many histories of samplers
  // ended with such an id.
  int64_t fed() const { return fed_; }
  int64_t pending() const { return pending_; }
  // The products that it was to prepare.
  const std::vector<kernels::MatMulUse>& products() const { return products_; }

  const kernels::BackendInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> AllocateOnHost(size_t bytes) override;
  absl::Status Zero(kernels::Buffer& buffer) override;
  absl::Status Upload(const void* host, size_t bytes, void* device) override;
  absl::Status Download(const void* device, size_t bytes, void* host) override;
  absl::StatusOr<std::optional<kernels::DeviceMemorySize>> DeviceMemory() const override;
  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Pack(const kernels::HostTensor& weight,
                                                              const kernels::Shard& shard) override;
  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> PackQuantized(
      const kernels::QuantizedTensor& weight, const kernels::Shard& shard) override;
  const kernels::PackedImages* packed_images() const override { return nullptr; }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> UploadVector(
      const kernels::HostTensor& vector) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> UploadTable(
      const kernels::HostTensor& table) override;
  bool CanEmbedFromPacked() const override { return inner_->CanEmbedFromPacked(); }
  absl::Status CopyBlocks(const kernels::PagedKv& from, const kernels::PagedKv& to,
                          std::span<const kernels::BlockCopy> copies) override;
  absl::Status Prepare(const kernels::StepUses& uses) override;
  absl::StatusOr<kernels::StepRows> BeginStep(const kernels::StepLayout& layout,
                                              const kernels::PagedKv& kv) override;
  absl::Status RunStep(uint64_t program, absl::FunctionRef<void()> operations) override;
  void Embed(const kernels::Buffer& table, kernels::Matrix out) override;
  void EmbedFromPacked(const kernels::PackedWeight& weight, kernels::Matrix out) override;
  void GatherSampled(kernels::Matrix in, kernels::Matrix out) override;
  void RmsNorm(kernels::Matrix in, const kernels::Buffer& weight, float eps,
               kernels::Matrix out) override;
  void MatMul(const kernels::PackedWeight& weight, kernels::Matrix in, kernels::Matrix out,
              const kernels::MatMulEpilogue& epilogue) override;
  void RopeAndStoreKv(kernels::Matrix qkv, int layer, const kernels::AttentionShape& shape,
                      const kernels::RopeShape& rope, const kernels::QkNorm& norm) override;
  void PagedAttention(kernels::Matrix qkv, int layer, const kernels::AttentionShape& shape,
                      kernels::Matrix out) override;
  void SiluMul(kernels::Matrix gate_up, kernels::Matrix out) override;
  void AllReduce(kernels::Matrix values) override;
  void GatherColumns(kernels::Matrix parts, kernels::Matrix out) override;
  void Sample(kernels::Matrix logits, std::span<const kernels::SampleRow> rows,
              std::span<SampledToken> results) override;
  void Fetch(kernels::Matrix values, std::span<float> host) override;
  absl::Status EndStep() override;

 private:
  struct Step {
    std::span<SampledToken> results;
    std::vector<SampledToken> drawn;
    std::span<float> host;
    std::vector<float> fetched;
    bool computed = false;
    absl::Status status;
  };
  // Ends the step of `inner` that began last.
  void Compute();

  kernels::Backend* const inner_;
  kernels::BackendInfo info_;
  std::vector<kernels::MatMulUse> products_;
  std::map<int32_t, int32_t> last_;  // of each slot
  std::vector<int32_t> tokens_;      // of the step that began last
  std::deque<Step> steps_;           // oldest first
  int64_t fed_ = 0;
  int64_t pending_ = 0;
};

}  // namespace baton::test
