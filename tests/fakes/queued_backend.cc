#include "tests/fakes/queued_backend.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton::test {

using kernels::Buffer;
using kernels::Matrix;
using kernels::PackedWeight;

QueuedBackend::QueuedBackend(kernels::Backend* inner, int max_captured_rows)
    : inner_(inner), info_(inner->info()) {
  info_.keeps_last_tokens = true;
  info_.max_captured_rows = max_captured_rows;
}

absl::StatusOr<std::unique_ptr<Buffer>> QueuedBackend::Allocate(size_t bytes) {
  return inner_->Allocate(bytes);
}
absl::StatusOr<std::unique_ptr<Buffer>> QueuedBackend::AllocateOnHost(size_t bytes) {
  return inner_->AllocateOnHost(bytes);
}
absl::Status QueuedBackend::Zero(Buffer& buffer) { return inner_->Zero(buffer); }
absl::Status QueuedBackend::Upload(const void* host, size_t bytes, void* device) {
  return inner_->Upload(host, bytes, device);
}
absl::Status QueuedBackend::Download(const void* device, size_t bytes, void* host) {
  return inner_->Download(device, bytes, host);
}
absl::StatusOr<std::optional<kernels::DeviceMemorySize>> QueuedBackend::DeviceMemory() const {
  return inner_->DeviceMemory();
}
absl::StatusOr<std::unique_ptr<PackedWeight>> QueuedBackend::Pack(const kernels::HostTensor& weight,
                                                                  const kernels::Shard& shard) {
  return inner_->Pack(weight, shard);
}
absl::StatusOr<std::unique_ptr<PackedWeight>> QueuedBackend::PackQuantized(
    const kernels::QuantizedTensor& weight, const kernels::Shard& shard) {
  return inner_->PackQuantized(weight, shard);
}
absl::StatusOr<std::unique_ptr<Buffer>> QueuedBackend::UploadVector(
    const kernels::HostTensor& vector) {
  return inner_->UploadVector(vector);
}
absl::StatusOr<std::unique_ptr<Buffer>> QueuedBackend::UploadTable(
    const kernels::HostTensor& table) {
  return inner_->UploadTable(table);
}
absl::Status QueuedBackend::CopyBlocks(const kernels::PagedKv& from, const kernels::PagedKv& to,
                                       std::span<const kernels::BlockCopy> copies) {
  Compute();
  return inner_->CopyBlocks(from, to, copies);
}
absl::Status QueuedBackend::Prepare(const kernels::StepUses& uses) {
  products_.assign(uses.products.begin(), uses.products.end());
  return inner_->Prepare(uses);
}

absl::StatusOr<kernels::StepRows> QueuedBackend::BeginStep(const kernels::StepLayout& layout,
                                                           const kernels::PagedKv& kv) {
  BATON_CHECK(steps_.size() < 2) << "a step began while two ran";
  Compute();
  tokens_.assign(layout.tokens.begin(), layout.tokens.end());
  for (int32_t& token : tokens_) {
    if (token >= 0) continue;
    const int32_t slot = -1 - token;  // LastTokenOf
    BATON_CHECK(last_.count(slot) > 0) << "slot " << slot << " drew nothing";
    token = last_[slot];
    ++fed_;
  }
  kernels::StepLayout known = layout;
  known.tokens = tokens_;
  auto rows = inner_->BeginStep(known, kv);
  if (rows.ok()) steps_.emplace_back();
  return rows;
}

absl::Status QueuedBackend::RunStep(uint64_t program, absl::FunctionRef<void()> operations) {
  return inner_->RunStep(program, operations);
}
void QueuedBackend::Embed(const Buffer& table, Matrix out) { inner_->Embed(table, out); }
void QueuedBackend::EmbedFromPacked(const PackedWeight& weight, Matrix out) {
  inner_->EmbedFromPacked(weight, out);
}
void QueuedBackend::GatherSampled(Matrix in, Matrix out) { inner_->GatherSampled(in, out); }
void QueuedBackend::RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) {
  inner_->RmsNorm(in, weight, eps, out);
}
void QueuedBackend::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                           const kernels::MatMulEpilogue& epilogue) {
  inner_->MatMul(weight, in, out, epilogue);
}
void QueuedBackend::RopeAndStoreKv(Matrix qkv, int layer, const kernels::AttentionShape& shape,
                                   const kernels::RopeShape& rope, const kernels::QkNorm& norm) {
  inner_->RopeAndStoreKv(qkv, layer, shape, rope, norm);
}
void QueuedBackend::PagedAttention(Matrix qkv, int layer, const kernels::AttentionShape& shape,
                                   Matrix out) {
  inner_->PagedAttention(qkv, layer, shape, out);
}
void QueuedBackend::SiluMul(Matrix gate_up, Matrix out) { inner_->SiluMul(gate_up, out); }
void QueuedBackend::AllReduce(Matrix values) { inner_->AllReduce(values); }
void QueuedBackend::GatherColumns(Matrix parts, Matrix out) { inner_->GatherColumns(parts, out); }

void QueuedBackend::Sample(Matrix logits, std::span<const kernels::SampleRow> rows,
                           std::span<SampledToken> results) {
  BATON_CHECK(!steps_.empty());
  Step& step = steps_.back();
  step.results = results;
  step.drawn.resize(rows.size());
  std::vector<kernels::SampleRow> known(rows.begin(), rows.end());
  for (kernels::SampleRow& row : known) {
    if (!row.pending_output) continue;
    BATON_CHECK(row.pending_id < 0 && last_.count(row.slot) > 0) << "slot " << row.slot;
    row.pending_id = last_[row.slot];
    ++pending_;
  }
  inner_->Sample(logits, known, step.drawn);
  Compute();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].slot >= 0 && !rows[i].one_of_several) last_[rows[i].slot] = step.drawn[i].token;
  }
}

void QueuedBackend::Fetch(Matrix values, std::span<float> host) {
  BATON_CHECK(!steps_.empty() && !steps_.back().computed);
  Step& step = steps_.back();
  step.host = host;
  step.fetched.resize(host.size());
  inner_->Fetch(values, step.fetched);
}

void QueuedBackend::Compute() {
  if (steps_.empty() || steps_.back().computed) return;
  steps_.back().status = inner_->EndStep();
  steps_.back().computed = true;
}

absl::Status QueuedBackend::EndStep() {
  Compute();
  BATON_CHECK(!steps_.empty()) << "EndStep without BeginStep";
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  std::copy(step.drawn.begin(), step.drawn.end(), step.results.begin());
  std::copy(step.fetched.begin(), step.fetched.end(), step.host.begin());
  return step.status;
}

}  // namespace baton::test
