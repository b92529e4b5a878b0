#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cpu/band_gemm.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels {
namespace {

// How many rows a thread should have at least before work is split.
int64_t GrainRows(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)); }

// The threads of this rank. The first ranks get those that do not divide evenly.
int ThreadsOfRank(const BackendOptions& options) {
  const int all = options.threads > 0 ? options.threads : cpu::UsableCores();
  if (options.collective == nullptr) return all;
  const int ranks = options.collective->size();
  return std::max(1, all / ranks + (options.collective->rank() < all % ranks ? 1 : 0));
}

std::unique_ptr<cpu::Gemm> MakeGemm(cpu::Isa isa, DType compute_dtype, int threads) {
  if (isa == cpu::Isa::kAmx) return std::make_unique<cpu::BandGemm>(cpu::AmxKernel(), threads);
  if (isa == cpu::Isa::kAvx512Bf16) {
    return std::make_unique<cpu::BandGemm>(cpu::PairsKernel(), threads);
  }
  return std::make_unique<cpu::PanelGemm>(isa, compute_dtype, threads);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CpuBackend::Create(const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa(options.isa, options.compute_dtype));
  if (options.threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads ", options.threads, "; expected 0 (one per physical core) or more"));
  }
  const int threads = cpu::AskForThreads(ThreadsOfRank(options));
  std::unique_ptr<cpu::Gemm> gemm = MakeGemm(isa, options.compute_dtype, threads);
  BackendInfo info{.device = Device::kCpu,
                   .isa = std::string(cpu::Name(isa)),
                   .matmul = gemm->implementation(),
                   .threads = threads,
                   .compute_dtype = options.compute_dtype,
                   .attention_version = cpu::AttentionVersion(isa),
                   .ranks = options.collective != nullptr ? options.collective->size() : 1,
                   .rounds_inputs = true};
  return std::unique_ptr<Backend>(new CpuBackend(std::move(info), cpu::VectorIsa(isa),
                                                 std::move(gemm), cpu::ChoosePagedAttention(isa),
                                                 options.collective));
}

CpuBackend::CpuBackend(BackendInfo info, cpu::Isa isa, std::unique_ptr<cpu::Gemm> gemm,
                       cpu::PagedAttentionFn paged_attention, Collective* collective)
    : HostBackend(std::move(info), collective),
      team_(this->info().threads),
      gemm_(std::move(gemm)),
      images_(this->info().isa, *gemm_),
      quantized_gemm_(cpu::QuantizedKernelOf(isa, cpu::HasVnni()), this->info().threads),
      rms_norm_(cpu::ChooseRmsNorm(isa)),
      silu_mul_(cpu::ChooseSiluMul(isa)),
      rope_store_(cpu::ChooseRopeStore(isa)),
      paged_attention_(paged_attention),
      sample_ops_(cpu::ChooseSampleOps(isa)) {
  for (int thread = 0; thread < this->info().threads; ++thread) samplers_.emplace_back(sample_ops_);
}

// Most of the time goes to page faults, which threads take side by side.
absl::Status CpuBackend::Zero(Buffer& buffer) {
  BATON_RETURN_IF_ERROR(team_.Take());
  std::byte* const data = static_cast<std::byte*>(buffer.data());
  cpu::ParallelRanges(info().threads, static_cast<int64_t>(buffer.size()), int64_t{1} << 20,
                      [&](int64_t begin, int64_t end) {
                        std::memset(data + begin, 0, static_cast<size_t>(end - begin));
                      });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuBackend::Pack(const HostTensor& weight,
                                                               const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  BATON_RETURN_IF_ERROR(team_.Take());
  return gemm_->Pack(weight, part);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuBackend::PackQuantized(
    const QuantizedTensor& weight, const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  BATON_RETURN_IF_ERROR(team_.Take());
  return quantized_gemm_.Pack(weight, part);
}

absl::Status CpuBackend::Prepare(const StepUses& uses) {
  BATON_RETURN_IF_ERROR(team_.Take());
  BATON_RETURN_IF_ERROR(quantized_gemm_.Prepare(uses.products));
  std::vector<MatMulUse> plain;
  std::copy_if(uses.products.begin(), uses.products.end(), std::back_inserter(plain),
               [](const MatMulUse& use) { return !use.weight->quantized(); });
  return gemm_->Prepare(plain);
}

absl::StatusOr<StepRows> CpuBackend::BeginStep(const StepLayout& layout, const PagedKv& kv) {
  BATON_ASSIGN_OR_RETURN(const StepRows rows, HostBackend::BeginStep(layout, kv));
  BATON_RETURN_IF_ERROR(team_.Take());
  rope_table_.Reset();
  attention_tasks_.Clear();
  sequence_of_.resize(layout.tokens.size());
  for (size_t i = 0; i < layout.sequences.size(); ++i) {
    const StepLayout::Sequence& sequence = layout.sequences[i];
    std::fill_n(sequence_of_.begin() + sequence.token_begin, sequence.num_tokens,
                static_cast<int32_t>(i));
  }
  return rows;
}

void CpuBackend::Embed(const Buffer& table, Matrix out) {
  CheckTokens(layout().tokens, check().Embed(table, out));
  for (int64_t row = 0; row < out.rows; ++row) {
    const int64_t token = layout().tokens[row];
    float* to = static_cast<float*>(out.row(row));
    if (info().compute_dtype == DType::kF32) {
      std::memcpy(to, static_cast<const float*>(table.data()) + token * out.cols,
                  static_cast<size_t>(out.cols) * sizeof(float));
      continue;
    }
    const uint16_t* from = static_cast<const uint16_t*>(table.data()) + token * out.cols;
    for (int64_t i = 0; i < out.cols; ++i) to[i] = FloatFromBf16(from[i]);
  }
}

void CpuBackend::EmbedFromPacked(const PackedWeight& weight, Matrix out) {
  check().EmbedFromPacked(weight, out);
  CheckTokens(layout().tokens, weight.out());
  cpu::ParallelRanges(info().threads, out.rows, GrainRows(out.cols),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t row = begin; row < end; ++row) {
                          gemm_->UnpackRow(weight, layout().tokens[row], out, row);
                        }
                      });
}

void CpuBackend::RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) {
  check().RmsNorm(in, weight, out);
  cpu::ParallelRanges(info().threads, in.rows, GrainRows(in.cols), [&](int64_t begin, int64_t end) {
    rms_norm_(in, static_cast<const float*>(weight.data()), eps, out, begin, end);
  });
}

void CpuBackend::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                        const MatMulEpilogue& epilogue) {
  check().MatMul(weight, in, out, epilogue);
  if (weight.quantized()) {
    quantized_gemm_.Run(weight, in, out, epilogue);
  } else {
    gemm_->Run(weight, in, out, epilogue);
  }
}

void CpuBackend::RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                                const RopeShape& rope, const QkNorm& norm) {
  check().RopeAndStoreKv(qkv, layer, shape, rope, norm);
  rope_table_.Update(layout().positions, rope);
  const cpu::RopeStoreArgs args{
      .qkv = qkv, .kv = kv(), .layer = layer, .shape = shape, .norm = norm};
  const int block_size = kv().layout.block_size;
  cpu::ParallelRanges(
      info().threads, qkv.rows, GrainRows(qkv.cols), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int32_t position = layout().positions[row];
          const auto& blocks = layout().sequences[sequence_of_[row]].blocks;
          rope_store_(args, row, rope_table_.cosine(row), rope_table_.sine(row),
                      kv().block(blocks[position / block_size]), position % block_size);
        }
      });
}

void CpuBackend::PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) {
  check().PagedAttention(qkv, layer, shape, out);
  const size_t floats = cpu::AttentionScratch(shape, kv().layout.block_size);
  const size_t needed = floats * sizeof(float) * static_cast<size_t>(info().threads);
  if (attention_scratch_ == nullptr || attention_scratch_->size() < needed) {
    auto buffer = AllocateHost(needed);
    BATON_CHECK(buffer.ok()) << buffer.status().ToString();
    attention_scratch_ = std::move(buffer).value();
  }
  float* scratch = static_cast<float*>(attention_scratch_->data());
  cpu::AttentionArgs args{.qkv = qkv, .out = out, .kv = kv(), .layer = layer, .shape = shape};
  args.shape.scale *= shape.k_scale;  // scores are of codes; v_scale multiplies the results
  const std::span<const cpu::AttentionTask> tasks =
      attention_tasks_.For(layout().sequences, shape, info().threads);
  cpu::ParallelItems(info().threads, static_cast<int64_t>(tasks.size()),
                     [&](int64_t task, int thread) {
                       paged_attention_(args, tasks[static_cast<size_t>(task)],
                                        scratch + floats * static_cast<size_t>(thread));
                     });
}

void CpuBackend::SiluMul(Matrix gate_up, Matrix out) {
  check().SiluMul(gate_up, out);
  cpu::ParallelRanges(info().threads, out.rows, GrainRows(out.cols),
                      [&](int64_t begin, int64_t end) { silu_mul_(gate_up, out, begin, end); });
}

void CpuBackend::Sample(Matrix logits, std::span<const SampleRow> rows,
                        std::span<SampledToken> results) {
  check().Sample(logits, rows, results);
  cpu::ParallelItems(
      info().threads, static_cast<int64_t>(rows.size()), [&](int64_t row, int thread) {
        const std::span<const float> raw(static_cast<const float*>(logits.row(row)), logits.cols);
        samplers_[thread].Run(rows[row], raw, results[row]);
      });
}

}  // namespace baton::kernels
