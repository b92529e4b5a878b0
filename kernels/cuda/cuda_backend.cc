#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/collective.h"
#include "kernels/cuda/device_limits.h"
#include "kernels/cuda/flash_attention.h"
#include "kernels/cuda/plain_attention.h"
#include "kernels/cuda/rope_store.h"
#include "kernels/cuda/row_buckets.h"
#include "kernels/cuda/row_ops.h"
#include "kernels/host_memory.h"
#include "kernels/step_check.h"

namespace baton::kernels {
namespace {

constexpr int kMaxHeadDim = 256;
constexpr size_t kInputBytes = size_t{8} << 20;      // grows where a step needs more
constexpr size_t kPartialBytes = size_t{128} << 20;  // results of split keys
constexpr size_t kMaxRunning = 2;
constexpr int64_t kMaxCaptureRows = 512;  // a larger step is not launch-bound

// [out, in] in the compute dtype, row-major: cuBLASLt's transposed operand.
class DenseWeight final : public PackedWeight {
 public:
  DenseWeight(int64_t out, int64_t in, std::unique_ptr<cuda::DeviceMemory> memory)
      : out_(out), in_(in), memory_(std::move(memory)) {}
  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return memory_->size(); }
  const void* data() const { return memory_->data(); }

 private:
  const int64_t out_;
  const int64_t in_;
  const std::unique_ptr<cuda::DeviceMemory> memory_;
};

const DenseWeight& Dense(const PackedWeight& weight) {
  return static_cast<const DenseWeight&>(weight);
}

// fp32, and the same in the compute dtype: cuBLASLt adds a bias of its output's dtype.
class DeviceVector final : public Buffer {
 public:
  DeviceVector(std::unique_ptr<cuda::DeviceMemory> wide, std::unique_ptr<cuda::DeviceMemory> narrow)
      : wide_(std::move(wide)), narrow_(std::move(narrow)) {}
  void* data() const override { return wide_->data(); }
  size_t size() const override { return wide_->size(); }
  const void* in(DType dtype) const {
    return dtype == DType::kF32 ? wide_->data() : narrow_->data();
  }

 private:
  const std::unique_ptr<cuda::DeviceMemory> wide_;
  const std::unique_ptr<cuda::DeviceMemory> narrow_;
};

const float* Floats(const Buffer* buffer) {
  return buffer != nullptr ? static_cast<const float*>(buffer->data()) : nullptr;
}

bool IsDense(Matrix matrix) { return matrix.stride == matrix.cols; }

bool SameShape(const AttentionShape& a, const AttentionShape& b) {
  return a.q_heads == b.q_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.sliding_window == b.sliding_window && a.scale == b.scale;
}

// Every sequence adds one token and samples it: what a decode step is.
bool IsDecode(const StepLayout& layout) {
  if (layout.sequences.size() != layout.tokens.size() ||
      layout.sample_rows.size() != layout.tokens.size()) {
    return false;
  }
  for (size_t i = 0; i < layout.sample_rows.size(); ++i) {
    if (layout.sample_rows[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::Create(const BackendOptions& options) {
  if (options.collective != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("device cuda in a group of ", options.collective->size(),
                     " ranks; GPUs compute alone: use --tensor-parallel-size 1"));
  }
  BATON_ASSIGN_OR_RETURN(cuda::DeviceInfo device, cuda::OpenDevice(options.device_index));
  BATON_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create());
  BackendInfo info{.device = "cuda",
                   .isa = absl::StrCat("sm_", device.capability_major, device.capability_minor),
                   .threads = 1,
                   .compute_dtype = options.compute_dtype,
                   .batch_invariant = false};
  auto backend = std::unique_ptr<CudaBackend>(
      new CudaBackend(std::move(info), std::move(device), std::move(stream)));
  const cuda::StreamHandle handle = backend->stream_.handle();
  BATON_ASSIGN_OR_RETURN(backend->matmul_, cuda::MatMul::Create(options.compute_dtype, handle));
  BATON_ASSIGN_OR_RETURN(backend->uploader_, cuda::Uploader::Create(handle));
  BATON_ASSIGN_OR_RETURN(backend->inputs_, cuda::StepInputs::Create(kInputBytes));
  backend->info_.matmul = absl::StrCat("cublaslt-", backend->matmul_->version());
  return backend;
}

CudaBackend::CudaBackend(BackendInfo info, cuda::DeviceInfo device, cuda::Stream stream)
    : info_(std::move(info)),
      device_(std::move(device)),
      stream_(std::move(stream)),
      graphs_(stream_.handle()) {}

CudaBackend::~CudaBackend() {
  // Buffers of the members may be in use until the stream is done; an error was reported before.
  stream_.Synchronize().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(size_t bytes) {
  return cuda::DeviceMemory::Allocate(
      bytes, "--max-num-batched-tokens, --max-num-seqs or --gpu-memory-utilization");
}

absl::Status CudaBackend::Zero(Buffer& buffer) {
  BATON_RETURN_IF_ERROR(cuda::Fill(buffer.data(), 0, buffer.size(), stream_.handle()));
  return stream_.Synchronize();
}

absl::Status CudaBackend::Upload(const void* host, size_t bytes, void* device) {
  BATON_RETURN_IF_ERROR(cuda::CopyToDevice(device, host, bytes, stream_.handle()));
  return stream_.Synchronize();
}

absl::Status CudaBackend::Download(const void* device, size_t bytes, void* host) {
  BATON_RETURN_IF_ERROR(cuda::CopyToHost(host, device, bytes, stream_.handle()));
  return stream_.Synchronize();
}

absl::StatusOr<std::optional<DeviceMemorySize>> CudaBackend::DeviceMemory() const {
  BATON_ASSIGN_OR_RETURN(const cuda::DeviceMemoryInfo memory, cuda::QueryMemory());
  return DeviceMemorySize{static_cast<int64_t>(memory.free_bytes),
                          static_cast<int64_t>(memory.total_bytes)};
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::Pack(const HostTensor& weight,
                                                                const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  BATON_ASSIGN_OR_RETURN(
      auto memory,
      cuda::DeviceMemory::Allocate(static_cast<size_t>(out * in) * SizeOf(info_.compute_dtype),
                                   "the size of the model, or raise --tensor-parallel-size"));
  BATON_RETURN_IF_ERROR(uploader_->Send(weight, part, info_.compute_dtype, memory->data()));
  return std::make_unique<DenseWeight>(out, in, std::move(memory));
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::UploadVector(const HostTensor& vector) {
  const Shard whole = {0, vector.rows, 0, vector.cols};
  const size_t count = static_cast<size_t>(vector.rows * vector.cols);
  BATON_ASSIGN_OR_RETURN(auto wide, cuda::DeviceMemory::Allocate(count * sizeof(float)));
  BATON_RETURN_IF_ERROR(uploader_->Send(vector, whole, DType::kF32, wide->data()));
  BATON_ASSIGN_OR_RETURN(auto narrow,
                         cuda::DeviceMemory::Allocate(count * SizeOf(info_.compute_dtype)));
  BATON_RETURN_IF_ERROR(uploader_->Send(vector, whole, info_.compute_dtype, narrow->data()));
  return std::make_unique<DeviceVector>(std::move(wide), std::move(narrow));
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::UploadTable(const HostTensor& table) {
  const size_t count = static_cast<size_t>(table.rows * table.cols);
  BATON_ASSIGN_OR_RETURN(auto memory,
                         cuda::DeviceMemory::Allocate(count * SizeOf(info_.compute_dtype)));
  BATON_RETURN_IF_ERROR(
      uploader_->Send(table, {0, table.rows, 0, table.cols}, info_.compute_dtype, memory->data()));
  return memory;
}

// Layers share their products' shapes: each shape is timed once per rung, with the weights of all
// layers in turn.
absl::Status CudaBackend::PrepareProducts(const StepUses& uses) {
  struct Product {
    std::vector<const void*> weights;
    int64_t max_rows = 0;
  };
  std::map<cuda::MatMulKey, Product> products;
  size_t in_bytes = 0;
  size_t out_bytes = 0;
  for (const MatMulUse& use : uses.products) {
    const cuda::MatMulKey key = {.out = use.weight->out(),
                                 .in = use.weight->in(),
                                 .out_dtype = use.out,
                                 .bias = use.bias,
                                 .accumulate = use.accumulate};
    Product& product = products[key];
    product.weights.push_back(Dense(*use.weight).data());
    product.max_rows = std::max<int64_t>(product.max_rows, use.max_rows);
    const auto rows = static_cast<size_t>(cuda::RowBucket(product.max_rows));
    in_bytes = std::max(in_bytes, rows * static_cast<size_t>(key.in) * SizeOf(info_.compute_dtype));
    out_bytes = std::max(out_bytes, rows * static_cast<size_t>(key.out) * SizeOf(key.out_dtype));
  }
  BATON_ASSIGN_OR_RETURN(auto in, Allocate(in_bytes));
  BATON_ASSIGN_OR_RETURN(auto out, Allocate(out_bytes));
  // Small numbers other than zero: the device is faster with zeros than it will be.
  BATON_RETURN_IF_ERROR(cuda::Fill(in->data(), 0x3c, in_bytes, stream_.handle()));
  BATON_RETURN_IF_ERROR(Zero(*out));
  for (const auto& [shape, product] : products) {
    cuda::MatMulKey key = shape;
    for (const int64_t rows : cuda::RowBuckets(product.max_rows)) {
      key.rows = rows;
      BATON_RETURN_IF_ERROR(matmul_->Prepare(key, product.weights, in->data(), out->data()));
    }
  }
  return stream_.Synchronize();
}

absl::Status CudaBackend::PrepareAttention(const StepUses& uses) {
  const DType dtype = info_.compute_dtype;
  flash_.clear();
  size_t out_bytes = 0;
  size_t lse_bytes = 0;
  for (const AttentionShape& shape : uses.attentions) {
    if (!cuda::FlashAttentionHas(dtype, dtype, shape.head_dim)) continue;
    FlashShape& flash = flash_.emplace_back();
    flash.shape = shape;
    const size_t row = static_cast<size_t>(shape.q_heads) * shape.head_dim * SizeOf(dtype);
    // At least one part for each row that a step may have.
    flash.max_partials =
        std::max<int64_t>(static_cast<int64_t>(kPartialBytes / row), uses.max_tokens);
    const auto partials = static_cast<size_t>(flash.max_partials);
    out_bytes = std::max(out_bytes, partials * row);
    lse_bytes = std::max(lse_bytes, partials * static_cast<size_t>(shape.q_heads) * sizeof(float));
  }
  if (flash_.empty()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(partial_out_, cuda::DeviceMemory::Allocate(out_bytes));
  BATON_ASSIGN_OR_RETURN(partial_lse_, cuda::DeviceMemory::Allocate(lse_bytes));
  return absl::OkStatus();
}

absl::Status CudaBackend::SetRope(std::span<const float> inv_freq) {
  if (std::equal(inv_freq.begin(), inv_freq.end(), inv_freq_.begin(), inv_freq_.end())) {
    return absl::OkStatus();
  }
  const size_t bytes = inv_freq.size_bytes();
  if (inv_freq_device_ == nullptr || inv_freq_device_->size() < bytes) {
    BATON_ASSIGN_OR_RETURN(inv_freq_device_, cuda::DeviceMemory::Allocate(bytes));
    graphs_.Clear();
  }
  inv_freq_.assign(inv_freq.begin(), inv_freq.end());
  return Upload(inv_freq_.data(), bytes, inv_freq_device_->data());
}

absl::Status CudaBackend::Prepare(const StepUses& uses) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  graphs_.Clear();
  if (!uses.products.empty()) BATON_RETURN_IF_ERROR(PrepareProducts(uses));
  BATON_RETURN_IF_ERROR(PrepareAttention(uses));
  if (uses.rope.has_value()) BATON_RETURN_IF_ERROR(SetRope(uses.rope->inv_freq));
  if (uses.vocab > 0) BATON_RETURN_IF_ERROR(PrepareSampling(uses.vocab, uses.max_samples));
  max_capture_rows_ = std::min<int64_t>({uses.max_tokens, uses.max_samples, kMaxCaptureRows});
  return absl::OkStatus();
}

cuda::StepSizes CudaBackend::PlanStep(const StepLayout& layout, const PagedKv& kv, bool& capture) {
  cuda::StepSizes sizes = {.rows = static_cast<int64_t>(layout.tokens.size()),
                           .samples = static_cast<int64_t>(layout.sample_rows.size()),
                           .sequences = static_cast<int64_t>(layout.sequences.size())};
  capture = IsDecode(layout) && cuda::RowBucket(sizes.rows) <= max_capture_rows_;
  if (capture) sizes.rows = sizes.samples = sizes.sequences = cuda::RowBucket(sizes.rows);
  if (!cuda::FlashAttentionHas(info_.compute_dtype, kv.layout.dtype, kv.layout.head_dim)) {
    return sizes;
  }
  for (FlashShape& flash : flash_) {
    cuda::PlanAttention(layout.sequences, flash.shape, sizes.rows, flash.max_partials, flash.plan);
    const auto narrow = static_cast<int32_t>(flash.plan.narrow_sequence.size());
    sizes.grids.push_back({.narrow = capture ? cuda::GridBucket(narrow) : narrow,
                           .wide = static_cast<int32_t>(flash.plan.wide_sequence.size())});
  }
  return sizes;
}

absl::StatusOr<StepRows> CudaBackend::BeginStep(const StepLayout& layout, const PagedKv& kv) {
  BATON_RETURN_IF_ERROR(CheckStep(layout, kv));
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_CHECK(steps_.size() < kMaxRunning) << "a step began while " << kMaxRunning << " ran";
  kv_ = kv;
  sizes_ = PlanStep(layout, kv, capture_);
  std::vector<const cuda::AttentionPlan*> plans;
  for (size_t i = 0; i < sizes_.grids.size(); ++i) plans.push_back(&flash_[i].plan);
  BATON_ASSIGN_OR_RETURN(const bool moved,
                         inputs_->Send(layout, kv.layout, sizes_, plans, stream_.handle()));
  if (moved) graphs_.Clear();
  steps_.emplace_back();
  return StepRows{sizes_.rows, sizes_.samples};
}

absl::Status CudaBackend::RunStep(uint64_t program, absl::FunctionRef<void()> operations) {
  if (!capture_) {
    operations();
    return Fault();
  }
  const cuda::GraphKey key = {.program = program,
                              .rows = sizes_.rows,
                              .samples = sizes_.samples,
                              .grids = sizes_.grids,
                              .arena = kv_.arena};
  BATON_RETURN_IF_ERROR(graphs_.Run(key, [&] {
    Fault() = absl::OkStatus();  // of a capture that failed and is now run as it is
    operations();
  }));
  return Fault();
}

void CudaBackend::Note(const absl::Status& status) {
  if (Fault().ok()) Fault() = status;
}

void CudaBackend::Note(int error, std::string_view what) {
  if (error != 0) Note(cuda::ToStatus(error, what));
}

void CudaBackend::Embed(const Buffer& table, Matrix out) {
  BATON_CHECK(out.dtype == DType::kF32) << "embeddings are fp32";
  const int64_t vocab = static_cast<int64_t>(table.size() / SizeOf(info_.compute_dtype)) / out.cols;
  Note(cuda::LaunchEmbed(table.data(), info_.compute_dtype, vocab, inputs_->device().tokens, out,
                         stream_.handle()),
       "embedding");
}

void CudaBackend::EmbedFromPacked(const PackedWeight& weight, Matrix out) {
  BATON_CHECK(out.dtype == DType::kF32 && out.cols == weight.in()) << "embeddings are fp32";
  Note(cuda::LaunchEmbed(Dense(weight).data(), info_.compute_dtype, weight.out(),
                         inputs_->device().tokens, out, stream_.handle()),
       "embedding");
}

void CudaBackend::GatherSampled(Matrix in, Matrix out) {
  BATON_CHECK(in.dtype == out.dtype && in.cols == out.cols) << "a gather changes neither";
  Note(cuda::LaunchGather(in, inputs_->device().sample_rows, out, stream_.handle()), "gathering");
}

void CudaBackend::RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) {
  BATON_CHECK(in.dtype == DType::kF32 && in.cols == out.cols && in.rows == out.rows &&
              weight.size() >= static_cast<size_t>(in.cols) * sizeof(float));
  Note(cuda::LaunchRmsNorm(in, Floats(&weight), eps, out, stream_.handle()), "rms_norm");
}

void CudaBackend::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                         const MatMulEpilogue& epilogue) {
  BATON_CHECK(in.cols == weight.in() && out.cols == weight.out() && in.rows == out.rows)
      << in.rows << " x " << in.cols << " by " << weight.out() << " x " << weight.in() << " into "
      << out.rows << " x " << out.cols;
  BATON_CHECK(IsDense(in) && IsDense(out)) << "matmul operands have no gap between rows";
  BATON_CHECK(in.dtype == info_.compute_dtype) << "matmul inputs are in the compute dtype";
  if (in.rows == 0) return;
  const auto* bias = static_cast<const DeviceVector*>(epilogue.bias);
  const cuda::MatMulKey key = {.rows = cuda::RowBucket(in.rows),
                               .out = weight.out(),
                               .in = weight.in(),
                               .out_dtype = out.dtype,
                               .bias = bias != nullptr,
                               .accumulate = epilogue.accumulate};
  Note(matmul_->Run(key, in.rows,
                    {.weight = Dense(weight).data(),
                     .in = in.data,
                     .out = out.data,
                     .bias = bias != nullptr ? bias->in(out.dtype) : nullptr}));
}

void* CudaBackend::Plane(int layer, int plane) const {
  return kv_.arena + kv_.offset(layer, plane, 0, 0) * SizeOf(kv_.layout.dtype);
}

void CudaBackend::RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                                 const RopeShape& rope, const QkNorm& norm) {
  BATON_CHECK(shape.head_dim % 8 == 0 && 0 < shape.head_dim && shape.head_dim <= kMaxHeadDim)
      << "head_dim " << shape.head_dim << ", expected a multiple of 8 up to " << kMaxHeadDim;
  Note(SetRope(rope.inv_freq));
  Note(cuda::LaunchRopeStore({.qkv = qkv,
                              .positions = inputs_->device().positions,
                              .slots = inputs_->device().slots,
                              .inv_freq = static_cast<const float*>(inv_freq_device_->data()),
                              .attention_factor = rope.attention_factor,
                              .q_norm = Floats(norm.q),
                              .k_norm = Floats(norm.k),
                              .norm_eps = norm.eps,
                              .q_heads = shape.q_heads,
                              .kv_heads = shape.kv_heads,
                              .head_dim = shape.head_dim,
                              .kv_dtype = kv_.layout.dtype,
                              .block_size = kv_.layout.block_size,
                              .k = Plane(layer, 0),
                              .v = Plane(layer, 1),
                              .block_stride = static_cast<int64_t>(kv_.layout.block_elements())},
                             stream_.handle()),
       "rope and store");
}

const CudaBackend::FlashShape* CudaBackend::FindFlash(const AttentionShape& shape) const {
  for (size_t i = 0; i < sizes_.grids.size(); ++i) {
    if (SameShape(flash_[i].shape, shape)) return &flash_[i];
  }
  return nullptr;
}

void CudaBackend::RunFlash(const FlashShape& flash, const cuda::PlanInputs& inputs, Matrix qkv,
                           int layer, Matrix out) {
  const cuda::StepArrays& step = inputs_->device();
  const cuda::StepSizes::Grid& grid = sizes_.grids[static_cast<size_t>(&flash - flash_.data())];
  cuda::FlashAttentionArgs args = {
      .dtype = qkv.dtype,
      .q = qkv.data,
      .q_stride = static_cast<int32_t>(qkv.stride),
      .out = out.data,
      .q_heads = flash.shape.q_heads,
      .kv_heads = flash.shape.kv_heads,
      .head_dim = flash.shape.head_dim,
      .sliding_window = flash.shape.sliding_window,
      .scale = flash.shape.scale,
      .rows = out.rows,
      .k = Plane(layer, 0),
      .v = Plane(layer, 1),
      .block_stride = static_cast<int64_t>(kv_.layout.block_elements()),
      .block_size = kv_.layout.block_size,
      .sequences = static_cast<int>(sizes_.sequences),
      .row_indptr = step.row_indptr,
      .blocks = step.blocks,
      .block_indptr = step.block_indptr,
      .last_block_tokens = step.last_block_tokens,
      .items = grid.narrow,
      .item_sequence = inputs.narrow_sequence,
      .item_tile = inputs.narrow_tile,
      .item_split = inputs.narrow_split,
      .item_valid = inputs.narrow_valid,
      .split_tokens = inputs.split_tokens,
      .partial_indptr = inputs.partial_indptr,
      .merge_indptr = inputs.merge_indptr,
      .partial_out = partial_out_->data(),
      .partial_lse = static_cast<float*>(partial_lse_->data())};
  Note(cuda::LaunchNarrowAttention(args, stream_.handle()), "attention");
  args.items = grid.wide;
  args.item_sequence = inputs.wide_sequence;
  args.item_tile = inputs.wide_tile;
  args.item_split = inputs.wide_tile;  // not read: keys are not split
  args.item_valid = nullptr;
  Note(cuda::LaunchWideAttention(args, stream_.handle()), "attention");
}

void CudaBackend::RunPlain(const AttentionShape& shape, Matrix qkv, int layer, Matrix out) {
  const cuda::StepArrays& step = inputs_->device();
  Note(cuda::LaunchPlainAttention(
           {.qkv = qkv,
            .out = out,
            .positions = step.positions,
            .row_sequences = step.row_sequences,
            .block_indptr = step.block_indptr,
            .blocks = step.blocks,
            .q_heads = shape.q_heads,
            .kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .sliding_window = shape.sliding_window,
            .scale = shape.scale,
            .kv_dtype = kv_.layout.dtype,
            .block_size = kv_.layout.block_size,
            .k = Plane(layer, 0),
            .v = Plane(layer, 1),
            .block_stride = static_cast<int64_t>(kv_.layout.block_elements())},
           stream_.handle()),
       "attention");
}

void CudaBackend::PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) {
  BATON_CHECK(qkv.dtype == out.dtype && IsDense(out)) << "attention keeps the activations' dtype";
  const FlashShape* const flash = FindFlash(shape);
  if (flash == nullptr) {
    RunPlain(shape, qkv, layer, out);
  } else {
    const auto index = static_cast<size_t>(flash - flash_.data());
    RunFlash(*flash, inputs_->device().plans[index], qkv, layer, out);
  }
}

void CudaBackend::SiluMul(Matrix gate_up, Matrix out) {
  BATON_CHECK(gate_up.cols == 2 * out.cols && gate_up.dtype == out.dtype &&
              gate_up.rows == out.rows);
  Note(cuda::LaunchSiluMul(gate_up, out, stream_.handle()), "silu_mul");
}

absl::Status CudaBackend::PrepareSampling(int32_t vocab, int32_t rows) {
  if (vocab == sampler_vocab_ && rows <= sampler_rows_) {
    return absl::OkStatus();
  }
  sampler_.reset();
  BATON_ASSIGN_OR_RETURN(
      sampler_, cuda::CudaSampler::Create({.vocab = vocab, .rows = rows}, stream_.handle()));
  sampler_vocab_ = vocab;
  sampler_rows_ = rows;
  return absl::OkStatus();
}

// Create refuses groups, so there is nobody to add.
void CudaBackend::AllReduce(Matrix /*values*/) {}

void CudaBackend::Sample(Matrix logits, std::span<const SampleRow> rows,
                         std::span<SampledToken> results) {
  BATON_CHECK(logits.dtype == DType::kF32 && rows.size() == results.size() &&
              static_cast<int64_t>(rows.size()) <= logits.rows);
  if (rows.empty()) return;
  if (steps_.empty()) steps_.emplace_back();
  const auto run = [&]() -> absl::Status {
    BATON_RETURN_IF_ERROR(
        PrepareSampling(static_cast<int32_t>(logits.cols), static_cast<int32_t>(logits.rows)));
    BATON_RETURN_IF_ERROR(sampler_->Stage(rows));
    BATON_RETURN_IF_ERROR(sampler_->Launch(logits));
    return sampler_->Finish(logits);
  };
  const absl::Status queued = run();
  Note(queued);
  if (queued.ok()) steps_.back().results = results;
}

absl::Status CudaBackend::EndStep() {
  RunningStep step;
  if (steps_.empty()) {
    step.fault = std::exchange(fault_, absl::OkStatus());
  } else {
    step = std::move(steps_.front());
    steps_.pop_front();
  }
  const absl::Status finished =
      step.results.empty() ? stream_.Synchronize() : sampler_->Collect(step.results);
  BATON_RETURN_IF_ERROR(step.fault);
  return finished;
}

absl::StatusOr<MachineLimits> CudaBackend::MeasureLimits() {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  return cuda::MeasureDeviceLimits(*matmul_, info_.compute_dtype, stream_.handle());
}

}  // namespace baton::kernels
