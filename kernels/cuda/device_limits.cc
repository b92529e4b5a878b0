#include "kernels/cuda/device_limits.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "common/base/status.h"
#include "kernels/cuda/gemm/fp8.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/cuda/rows/row_ops.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kCopyBytes = size_t{256} << 20;  // several times the L2
constexpr int64_t kSide = 8192;
constexpr int kRounds = 5;
constexpr char kFlags[] = "--gpu-memory-utilization";  // what leaves more memory to measure in

float* ScalesOf(const DeviceMemory& codes) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(codes.data()) + kSide * kSide);
}

// The median time of `operation` in seconds.
absl::StatusOr<double> Time(const std::function<absl::Status()>& operation, StreamHandle stream) {
  BATON_ASSIGN_OR_RETURN(Event begin, Event::Create(Event::Timing::kOn));
  BATON_ASSIGN_OR_RETURN(Event end, Event::Create(Event::Timing::kOn));
  BATON_RETURN_IF_ERROR(operation());
  std::array<float, kRounds> milliseconds;
  for (float& took : milliseconds) {
    BATON_RETURN_IF_ERROR(begin.Record(stream));
    BATON_RETURN_IF_ERROR(operation());
    BATON_RETURN_IF_ERROR(end.Record(stream));
    BATON_RETURN_IF_ERROR(end.Synchronize());
    BATON_ASSIGN_OR_RETURN(took, Event::MillisecondsBetween(begin, end));
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRounds / 2, milliseconds.end());
  return milliseconds[kRounds / 2] * 1e-3;
}

absl::StatusOr<double> CopyRate(StreamHandle stream) {
  BATON_ASSIGN_OR_RETURN(const auto from, DeviceMemory::Allocate(kCopyBytes, kFlags));
  BATON_ASSIGN_OR_RETURN(const auto to, DeviceMemory::Allocate(kCopyBytes, kFlags));
  BATON_ASSIGN_OR_RETURN(
      const double seconds,
      Time([&] { return CopyOnDevice(to->data(), from->data(), kCopyBytes, stream); }, stream));
  return 2.0 * static_cast<double>(kCopyBytes) / seconds;
}

// Fills with numbers that are uniform in [-0.5, 0.5): a device is faster with regular ones than it
// will be.
absl::Status FillRandom(void* device, DType dtype, StreamHandle stream) {
  std::vector<float> row(kSide);
  BATON_ASSIGN_OR_RETURN(const auto staging,
                         DeviceMemory::Allocate(kSide * kSide * sizeof(float), kFlags));
  uint32_t state = 12345;
  for (int64_t at = 0; at < kSide; ++at) {
    for (float& value : row) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(state >> 8) * 0x1.0p-24f - 0.5f;
    }
    std::byte* const to = static_cast<std::byte*>(staging->data()) + at * kSide * sizeof(float);
    BATON_RETURN_IF_ERROR(CopyToDevice(to, row.data(), kSide * sizeof(float), stream));
  }
  return ToStatus(LaunchConvert(staging->data(), DType::kF32, device, dtype, kSide * kSide, stream),
                  "converting");
}

// Makes a matrix of random numbers; with `fp8`, its codes followed by a scale per row.
absl::StatusOr<std::unique_ptr<DeviceMemory>> RandomOperand(DType dtype, bool fp8,
                                                            StreamHandle stream) {
  BATON_ASSIGN_OR_RETURN(auto plain, DeviceMemory::Allocate(kSide * kSide * SizeOf(dtype), kFlags));
  BATON_RETURN_IF_ERROR(FillRandom(plain->data(), dtype, stream));
  if (!fp8) return plain;
  BATON_ASSIGN_OR_RETURN(auto codes,
                         DeviceMemory::Allocate(kSide * kSide + kSide * sizeof(float), kFlags));
  BATON_RETURN_IF_ERROR(
      ToStatus(LaunchQuantizeRows(Matrix::Dense(plain->data(), dtype, kSide, kSide), codes->data(),
                                  ScalesOf(*codes), stream),
               "quantizing"));
  BATON_RETURN_IF_ERROR(WaitFor(stream));  // before `plain` goes
  return codes;
}

absl::StatusOr<double> MatMulRate(DType dtype, bool fp8, StreamHandle stream) {
  BATON_ASSIGN_OR_RETURN(const auto matmul, MatMul::Create(dtype, stream));
  BATON_ASSIGN_OR_RETURN(const auto weight, RandomOperand(dtype, fp8, stream));
  BATON_ASSIGN_OR_RETURN(const auto in, RandomOperand(dtype, fp8, stream));
  BATON_ASSIGN_OR_RETURN(const auto out,
                         DeviceMemory::Allocate(kSide * kSide * SizeOf(dtype), kFlags));
  const MatMulKey key = {.rows = kSide, .out = kSide, .in = kSide, .out_dtype = dtype, .fp8 = fp8};
  const MatMulOperands operands = {.weight = weight->data(),
                                   .in = in->data(),
                                   .out = out->data(),
                                   .weight_scales = fp8 ? ScalesOf(*weight) : nullptr,
                                   .in_scales = fp8 ? ScalesOf(*in) : nullptr};
  BATON_RETURN_IF_ERROR(matmul->Prepare(key, {&operands, 1}, nullptr));
  BATON_ASSIGN_OR_RETURN(const double seconds,
                         Time([&] { return matmul->Run(key, kSide, operands); }, stream));
  return 2.0 * static_cast<double>(kSide) * kSide * kSide / seconds;
}

}  // namespace

absl::StatusOr<MachineLimits> MeasureDeviceLimits(DType dtype, bool fp8, StreamHandle stream) {
  MachineLimits limits;
  BATON_ASSIGN_OR_RETURN(limits.read_bytes_per_s, CopyRate(stream));
  BATON_ASSIGN_OR_RETURN(limits.flops_per_s, MatMulRate(dtype, fp8, stream));
  return limits;
}

}  // namespace baton::kernels::cuda
