#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/gemm/fp8.h"
#include "kernels/host_memory.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels {
namespace {

constexpr char kWeightFlags[] =
    "the size of the model (a smaller one, or --quantization fp8), or use a GPU with more memory";
// --quantization fp8 is refused with weights that are small already.
constexpr char kIntegerFlags[] =
    "the size of the model (a smaller one, or one of fewer bits), or use more ranks or a GPU with "
    "more memory";
constexpr size_t kUploadRowBytes = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(size_t bytes) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  return cuda::DeviceMemory::Allocate(
      bytes, "--max-num-batched-tokens, --max-num-seqs or --gpu-memory-utilization");
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::AllocateOnHost(size_t bytes) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  return cuda::PinnedMemory::Allocate(bytes);
}

absl::Status CudaBackend::Zero(Buffer& buffer) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_RETURN_IF_ERROR(cuda::Fill(buffer.data(), 0, buffer.size(), stream_.handle()));
  return stream_.Synchronize();
}

absl::Status CudaBackend::Upload(const void* host, size_t bytes, void* device) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_RETURN_IF_ERROR(cuda::CopyToDevice(device, host, bytes, stream_.handle()));
  return stream_.Synchronize();
}

absl::Status CudaBackend::Download(const void* device, size_t bytes, void* host) {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_RETURN_IF_ERROR(cuda::CopyToHost(host, device, bytes, stream_.handle()));
  return stream_.Synchronize();
}

// On the stream of the steps, so each copy comes behind what was launched and before what will be.
absl::Status CudaBackend::CopyBlocks(const PagedKv& from, const PagedKv& to,
                                     std::span<const BlockCopy> copies) {
  CheckCopies(from, to, copies);
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  for (const BlockCopy& copy : copies) {
    BATON_RETURN_IF_ERROR(cuda::CopyAnywhere(to.block(copy.to), from.block(copy.from),
                                             from.layout.block_bytes(), stream_.handle()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<DeviceMemorySize>> CudaBackend::DeviceMemory() const {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_ASSIGN_OR_RETURN(const cuda::DeviceMemoryInfo memory, cuda::QueryMemory());
  return DeviceMemorySize{.own_bytes = cuda::AllocatedBytes(device_.index),
                          .free_bytes = static_cast<int64_t>(memory.free_bytes),
                          .total_bytes = static_cast<int64_t>(memory.total_bytes)};
}

absl::StatusOr<cuda::Uploader*> CudaBackend::uploader() {
  if (uploader_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(uploader_, cuda::Uploader::Create(stream_.handle()));
  }
  return uploader_.get();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::Pack(const HostTensor& weight,
                                                                const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  const bool fits =
      info_.fp8_multiple > 0 && out % info_.fp8_multiple == 0 && in % info_.fp8_multiple == 0;
  if (weight.dtype == DType::kFp8) {
    BATON_CHECK(fits && weight.row_scales != nullptr) << out << " x " << in << " of e4m3";
    return PackCodes(weight, part);
  }
  if (fp8_ && !weight.keep_precision && fits) return PackFp8(weight, part);
  BATON_ASSIGN_OR_RETURN(
      auto memory, cuda::DeviceMemory::Allocate(
                       static_cast<size_t>(out * in) * SizeOf(info_.compute_dtype), kWeightFlags));
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  BATON_RETURN_IF_ERROR(upload->Send(weight, part, info_.compute_dtype, memory->data()));
  return std::make_unique<cuda::DeviceWeight>(out, in, std::move(memory));
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackQuantized(
    const QuantizedTensor& weight, const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  BATON_ASSIGN_OR_RETURN(const auto places, cuda::QuantizedPlaces::Of(weight, part));
  BATON_ASSIGN_OR_RETURN(auto memory, cuda::DeviceMemory::Allocate(places.bytes(), kIntegerFlags));
  BATON_ASSIGN_OR_RETURN(const auto image, AllocateHost(places.bytes()));
  places.Fill(weight, part, static_cast<std::byte*>(image->data()));
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  // Sent as rows of the numbers that it is a whole multiple of, and not converted.
  const auto rows = static_cast<int64_t>(places.bytes() / kUploadRowBytes);
  const HostTensor bytes = {.data = image->data(),
                            .dtype = DType::kF32,
                            .rows = rows,
                            .cols = kUploadRowBytes / sizeof(float)};
  BATON_RETURN_IF_ERROR(
      upload->Send(bytes, {0, bytes.rows, 0, bytes.cols}, DType::kF32, memory->data()));
  return std::make_unique<cuda::IntegerWeight>(places, std::move(memory));
}

// Quantizes from the compute dtype, so that a cache of converted weights gives the same bits.
absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackFp8(const HostTensor& weight,
                                                                   const Shard& part) {
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  const size_t count = static_cast<size_t>(out * in);
  BATON_ASSIGN_OR_RETURN(auto elements, cuda::DeviceMemory::Allocate(count, kWeightFlags));
  BATON_ASSIGN_OR_RETURN(auto scales, cuda::DeviceMemory::Allocate(
                                          static_cast<size_t>(out) * sizeof(float), kWeightFlags));
  BATON_ASSIGN_OR_RETURN(const auto whole, cuda::DeviceMemory::Allocate(
                                               count * SizeOf(info_.compute_dtype), kWeightFlags));
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  BATON_RETURN_IF_ERROR(upload->Send(weight, part, info_.compute_dtype, whole->data()));
  BATON_RETURN_IF_ERROR(cuda::ToStatus(
      cuda::LaunchQuantizeRows(Matrix::Dense(whole->data(), info_.compute_dtype, out, in),
                               elements->data(), static_cast<float*>(scales->data()),
                               stream_.handle()),
      "quantizing a weight"));
  BATON_RETURN_IF_ERROR(stream_.Synchronize());  // before `whole` goes
  return std::make_unique<cuda::DeviceWeight>(out, in, std::move(elements), std::move(scales));
}

// Codes travel as the numbers of four bytes that their rows are whole multiples of, unconverted.
absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackCodes(const HostTensor& weight,
                                                                     const Shard& part) {
  constexpr auto kCodes = static_cast<int64_t>(sizeof(float));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  BATON_ASSIGN_OR_RETURN(
      auto elements, cuda::DeviceMemory::Allocate(static_cast<size_t>(out * in), kIntegerFlags));
  BATON_ASSIGN_OR_RETURN(auto scales, cuda::DeviceMemory::Allocate(
                                          static_cast<size_t>(out) * sizeof(float), kIntegerFlags));
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  const HostTensor words = {
      .data = weight.data, .dtype = DType::kF32, .rows = weight.rows, .cols = weight.cols / kCodes};
  const Shard of_words = {part.out_begin, part.out_end, part.in_begin / kCodes,
                          part.in_end / kCodes};
  BATON_RETURN_IF_ERROR(upload->Send(words, of_words, DType::kF32, elements->data()));
  const HostTensor of_rows = {.data = weight.row_scales, .cols = weight.rows};
  BATON_RETURN_IF_ERROR(
      upload->Send(of_rows, {0, 1, part.out_begin, part.out_end}, DType::kF32, scales->data()));
  return std::make_unique<cuda::DeviceWeight>(out, in, std::move(elements), std::move(scales),
                                              weight.input_scale);
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::UploadVector(const HostTensor& vector) {
  const Shard whole = {0, vector.rows, 0, vector.cols};
  const size_t count = static_cast<size_t>(vector.rows * vector.cols);
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  BATON_ASSIGN_OR_RETURN(auto floats,
                         cuda::DeviceMemory::Allocate(count * sizeof(float), kWeightFlags));
  BATON_RETURN_IF_ERROR(upload->Send(vector, whole, DType::kF32, floats->data()));
  BATON_ASSIGN_OR_RETURN(auto rounded, cuda::DeviceMemory::Allocate(
                                           count * SizeOf(info_.compute_dtype), kWeightFlags));
  BATON_RETURN_IF_ERROR(upload->Send(vector, whole, info_.compute_dtype, rounded->data()));
  return std::make_unique<cuda::DeviceVector>(std::move(floats), std::move(rounded));
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::UploadTable(const HostTensor& table) {
  const size_t count = static_cast<size_t>(table.rows * table.cols);
  BATON_ASSIGN_OR_RETURN(
      auto memory, cuda::DeviceMemory::Allocate(count * SizeOf(info_.compute_dtype), kWeightFlags));
  BATON_ASSIGN_OR_RETURN(cuda::Uploader* const upload, uploader());
  BATON_RETURN_IF_ERROR(
      upload->Send(table, {0, table.rows, 0, table.cols}, info_.compute_dtype, memory->data()));
  return memory;
}

}  // namespace baton::kernels
