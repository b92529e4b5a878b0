#include "kernels/cuda/device_limits.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "common/base/status.h"
#include "kernels/cuda/row_ops.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kCopyBytes = size_t{256} << 20;  // several times the L2
constexpr int64_t kSide = 8192;
constexpr int kRounds = 5;

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
  BATON_ASSIGN_OR_RETURN(const auto from, DeviceMemory::Allocate(kCopyBytes));
  BATON_ASSIGN_OR_RETURN(const auto to, DeviceMemory::Allocate(kCopyBytes));
  BATON_ASSIGN_OR_RETURN(
      const double seconds,
      Time([&] { return CopyOnDevice(to->data(), from->data(), kCopyBytes, stream); }, stream));
  return 2.0 * static_cast<double>(kCopyBytes) / seconds;
}

// Uniform in [-0.5, 0.5): a device is faster with regular numbers than it will be.
absl::Status FillRandom(void* device, DType dtype, StreamHandle stream) {
  std::vector<float> row(kSide);
  BATON_ASSIGN_OR_RETURN(const auto staging, DeviceMemory::Allocate(kSide * kSide * sizeof(float)));
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

absl::StatusOr<double> MatMulRate(MatMul& matmul, DType dtype, StreamHandle stream) {
  const size_t bytes = kSide * kSide * SizeOf(dtype);
  BATON_ASSIGN_OR_RETURN(const auto weight, DeviceMemory::Allocate(bytes));
  BATON_ASSIGN_OR_RETURN(const auto in, DeviceMemory::Allocate(bytes));
  BATON_ASSIGN_OR_RETURN(const auto out, DeviceMemory::Allocate(bytes));
  BATON_RETURN_IF_ERROR(FillRandom(weight->data(), dtype, stream));
  BATON_RETURN_IF_ERROR(CopyOnDevice(in->data(), weight->data(), bytes, stream));
  const MatMulKey key = {.rows = kSide, .out = kSide, .in = kSide, .out_dtype = dtype};
  const void* const weights[] = {weight->data()};
  BATON_RETURN_IF_ERROR(matmul.Prepare(key, weights, in->data(), out->data()));
  BATON_ASSIGN_OR_RETURN(
      const double seconds,
      Time(
          [&] {
            return matmul.Run(key, kSide,
                              {.weight = weight->data(), .in = in->data(), .out = out->data()});
          },
          stream));
  return 2.0 * static_cast<double>(kSide) * kSide * kSide / seconds;
}

}  // namespace

absl::StatusOr<MachineLimits> MeasureDeviceLimits(MatMul& matmul, DType dtype,
                                                  StreamHandle stream) {
  MachineLimits limits;
  BATON_ASSIGN_OR_RETURN(limits.read_bytes_per_s, CopyRate(stream));
  BATON_ASSIGN_OR_RETURN(limits.flops_per_s, MatMulRate(matmul, dtype, stream));
  return limits;
}

}  // namespace baton::kernels::cuda
