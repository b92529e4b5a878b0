#include "kernels/cuda/cuda_backend.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/collective.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "kernels/gpu_needs.h"
#include "kernels/step_check.h"

namespace baton::kernels {
namespace {

constexpr int kMaxCapturedRows = 512;  // a larger step is not launch-bound
constexpr int kFp8Multiple = 16;       // of the sides of a weight, as cuBLASLt wants them
constexpr int kFp8Major = 9;           // cuBLASLt multiplies e4m3 with scales per row on Hopper

// Refuses fp8 where this GPU cannot multiply it.
absl::Status CheckFp8(const BackendOptions& options, const cuda::DeviceInfo& device) {
  if (options.quantization != Quantization::kFp8) return absl::OkStatus();
  if (options.compute_dtype == DType::kF32) {
    return absl::OutOfRangeError(
        "--quantization fp8 with --dtype float32: fp8 products give 16 bits; use --dtype bfloat16 "
        "or float16, or --quantization none");
  }
  if (device.capability_major == kFp8Major) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "--quantization fp8 on GPU ", device.index, " (", device.name, ") of compute capability ",
      device.capability_major, ".", device.capability_minor, ": products of fp8 rows need ",
      kFp8Major, ".x (Hopper); use --quantization none"));
}

// Whether this is a decode step: every sequence adds one token and samples it.
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
  BATON_ASSIGN_OR_RETURN(cuda::DeviceInfo device, cuda::OpenDevice(options.device_index));
  BATON_RETURN_IF_ERROR(CheckFp8(options, device));
  BATON_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create());
  BackendInfo info{.device = Device::kCuda,
                   .isa = absl::StrCat("sm_", device.capability_major, device.capability_minor),
                   .threads = 1,
                   .compute_dtype = options.compute_dtype,
                   .ranks = options.collective != nullptr ? options.collective->size() : 1,
                   .keeps_last_tokens = true,
                   .max_captured_rows = kMaxCapturedRows};
  if (options.compute_dtype != DType::kF32 && device.capability_major == kFp8Major) {
    info.fp8_multiple = kFp8Multiple;
  }
  auto backend = std::unique_ptr<CudaBackend>(
      new CudaBackend(std::move(info), std::move(device), std::move(stream),
                      options.quantization == Quantization::kFp8, options.collective));
  BATON_RETURN_IF_ERROR(backend->CreateParts());
  return backend;
}

CudaBackend::CudaBackend(BackendInfo info, cuda::DeviceInfo device, cuda::Stream stream, bool fp8,
                         Collective* collective)
    : info_(std::move(info)),
      device_(std::move(device)),
      stream_(std::move(stream)),
      fp8_(fp8),
      collective_(collective),
      integer_products_(info_.compute_dtype, stream_.handle()),
      graphs_(stream_.handle()),
      check_(info_.compute_dtype) {}

absl::Status CudaBackend::CreateParts() {
  const cuda::StreamHandle handle = stream_.handle();
  BATON_ASSIGN_OR_RETURN(matmul_, cuda::MatMul::Create(info_.compute_dtype, handle));
  BATON_ASSIGN_OR_RETURN(inputs_, cuda::StepInputs::Create(kStepInputBytes));
  for (size_t i = 0; i < kMaxRunning; ++i) {
    BATON_ASSIGN_OR_RETURN(cuda::Event event, cuda::Event::Create());
    launched_.push_back(std::move(event));
    BATON_ASSIGN_OR_RETURN(cuda::Event copied, cuda::Event::Create());
    copies_.emplace_back(std::move(copied));
  }
  if (info_.fp8_multiple > 0) {
    fp8_products_ = std::make_unique<cuda::Fp8Products>(info_.compute_dtype, handle);
  }
  info_.matmul = absl::StrCat("cublaslt-", matmul_->version(), fp8_ ? "-fp8" : "");
  return absl::OkStatus();
}

CudaBackend::~CudaBackend() {
  // The members' buffers may be in use until the stream is done. Its errors were reported before.
  stream_.Synchronize().IgnoreError();
}

cuda::StepSizes CudaBackend::PlanStep(const StepLayout& layout, const PagedKv& kv, bool& capture) {
  cuda::StepSizes sizes = {.rows = static_cast<int64_t>(layout.tokens.size()),
                           .samples = static_cast<int64_t>(layout.sample_rows.size()),
                           .sequences = static_cast<int64_t>(layout.sequences.size())};
  const int64_t captured = cuda::CaptureRows(sizes.rows, max_capture_rows_);
  capture = IsDecode(layout) && captured > 0;
  if (capture) sizes.rows = sizes.samples = sizes.sequences = captured;
  PlanAttention(layout, kv, capture, sizes);
  return sizes;
}

absl::StatusOr<StepRows> CudaBackend::BeginStep(const StepLayout& layout, const PagedKv& kv) {
  BATON_RETURN_IF_ERROR(CheckStep(layout, kv));
  if (kv.layout.dtype == DType::kInt8) {
    return absl::InvalidArgumentError(
        "a KV cache of int8 on a GPU; expected float32, bfloat16, float16 or fp8");
  }
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_CHECK(steps_.size() < kMaxRunning) << "a step began while " << kMaxRunning << " ran";
  kv_ = kv;
  sizes_ = PlanStep(layout, kv, capture_);
  std::vector<const cuda::AttentionPlan*> plans;
  for (size_t i = 0; i < sizes_.grids.size(); ++i) plans.push_back(&flashinfer_[i].plan);
  BATON_ASSIGN_OR_RETURN(const bool moved,
                         inputs_->Send(layout, kv.layout, sizes_, plans, stream_.handle()));
  if (moved) graphs_.Clear();
  steps_.emplace_back();
  ++begun_;
  const StepRows rows = {sizes_.rows, sizes_.samples};
  check_.BeginStep(rows, kv.layout);
  return rows;
}

absl::Status CudaBackend::RunOperations(uint64_t program, absl::FunctionRef<void()> operations) {
  const auto launch = [&] {
    Fault() = absl::OkStatus();  // of a capture that failed and is now run as it is
    operations();
    return Fault();
  };
  if (!capture_) return launch();
  const cuda::GraphKey key = {.program = program,
                              .rows = sizes_.rows,
                              .samples = sizes_.samples,
                              .grids = sizes_.grids,
                              .arena = kv_.arena};
  return graphs_.Run(key, launch, [this](bool captured) { return AllCaptured(captured); });
}

absl::StatusOr<bool> CudaBackend::AllCaptured(bool captured) {
  if (collective_ == nullptr) return captured;
  float failed = captured ? 0.0f : 1.0f;
  BATON_RETURN_IF_ERROR(collective_->AllReduceSumOnHost({&failed, 1}));
  return failed == 0;
}

absl::Status CudaBackend::RunStep(uint64_t program, absl::FunctionRef<void()> operations) {
  BATON_CHECK(!steps_.empty()) << "RunStep without BeginStep";
  BATON_RETURN_IF_ERROR(RunOperations(program, operations));
  cuda::Event& launched = launched_[begun_ % kMaxRunning];
  BATON_RETURN_IF_ERROR(launched.Record(stream_.handle()));
  steps_.back().launched = &launched;
  return absl::OkStatus();
}

void CudaBackend::Note(const absl::Status& status) {
  if (Fault().ok()) Fault() = status;
}

void CudaBackend::Note(int error, std::string_view what) {
  if (error != 0) Note(cuda::ToStatus(error, what));
}

absl::Status CudaBackend::HostCopy::Reserve(size_t bytes) {
  if (memory != nullptr && memory->size() >= bytes) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(memory, cuda::PinnedMemory::Allocate(bytes));
  return absl::OkStatus();
}

// Waits only for this step, because one that was launched behind it may still run.
absl::Status CudaBackend::Await(const RunningStep& step) {
  if (step.copy != nullptr) {
    BATON_RETURN_IF_ERROR(step.copy->copied.Synchronize());
    std::memcpy(step.fetched.data(), step.copy->memory->data(), step.fetched.size_bytes());
  }
  if (!step.results.empty()) return sampler_->Collect(step.results);
  return step.launched != nullptr ? step.launched->Synchronize() : stream_.Synchronize();
}

absl::Status CudaBackend::EndStep() {
  RunningStep step;
  if (steps_.empty()) {
    step.fault = std::exchange(fault_, absl::OkStatus());
  } else {
    step = std::move(steps_.front());
    steps_.pop_front();
  }
  const absl::Status finished = Await(step);
  const absl::Status group = collective_ != nullptr ? collective_->status() : absl::OkStatus();
  // Graphs hold sums of the group, which ends only without them.
  if (!group.ok()) graphs_.Clear();
  BATON_RETURN_IF_ERROR(step.fault);
  BATON_RETURN_IF_ERROR(finished);
  return group;
}

}  // namespace baton::kernels
