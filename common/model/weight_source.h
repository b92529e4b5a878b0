#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "common/model/load_cache.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/quantized_tensor.h"

namespace baton {

// Rows [begin, end) of a stored tensor; a vector's elements count as rows.
struct RowRange {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
};

// A matrix or a vector as a rank packs it: ranges of rows of stored tensors, one below the other,
// of which it takes columns [col_begin, col_end).
struct WeightItem {
  std::string name;  // that it has in a load cache
  std::vector<RowRange> ranges;
  int64_t cols = 1;  // of the stored tensors; 1 for a vector
  int64_t col_begin = 0;
  int64_t col_end = -1;  // -1 = all
  bool widened = false;  // a projection of e4m3 becomes floats on every device

  int64_t rows() const;
  int64_t width() const { return (col_end < 0 ? cols : col_end) - col_begin; }
};

// What a backend is given to pack: the `shard` of `tensor`, or of `quantized` where that is set.
// Both are valid until the next call.
struct WeightData {
  kernels::HostTensor tensor;
  std::optional<kernels::QuantizedTensor> quantized;
  kernels::Shard shard;
};

// Where a load takes its weights from. Items are asked for in a fixed order.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual absl::StatusOr<WeightData> Matrix(const WeightItem& item) = 0;
  // A vector is a tensor [1, rows].
  virtual absl::StatusOr<kernels::HostTensor> Vector(const WeightItem& item) = 0;
  // Says that the item has been packed, so that its pages may be given back.
  virtual void Finish(const WeightItem& item) = 0;
  // How many bytes have been packed, and how many there are.
  virtual int64_t done() const = 0;
  virtual int64_t total() const = 0;
};

// Takes the weights from a checkpoint, whose tensors are divided and joined on the way. With a
// writer, what is packed is made dense and converted first, and written to the load cache as well;
// a quantized checkpoint has no writer.
class CheckpointSource final : public WeightSource {
 public:
  // `info` is the backend's that packs; its compute dtype is what matrices are converted to for the
  // writer, which may be null. `order` are the tensors that will be read, in order.
  CheckpointSource(const ModelConfig& config, const CheckpointFiles& files,
                   const kernels::BackendInfo& info, std::vector<const StoredTensor*> order,
                   std::unique_ptr<LoadCacheWriter> writer);

  absl::StatusOr<WeightData> Matrix(const WeightItem& item) override;
  absl::StatusOr<kernels::HostTensor> Vector(const WeightItem& item) override;
  void Finish(const WeightItem& item) override;
  int64_t done() const override { return done_; }
  int64_t total() const override { return files_.data_bytes(); }

  // Makes the cache appear when everything has been packed. What goes wrong with it is only logged.
  void CommitCache();

 private:
  const StoredTensor& Find(const std::string& name) const;
  absl::StatusOr<kernels::DType> DTypeOf(const WeightItem& item) const;
  // Whether the item is quantized. Where only some of its ranges are: false for a GGUF file, else
  // INVALID_ARGUMENT.
  absl::StatusOr<bool> Quantized(const WeightItem& item) const;
  // Whether only the values of the item can be joined: its ranges are of e4m3, or, in a GGUF file,
  // one is made of blocks or they are of several types, of floats too.
  bool NeedsValues(const WeightItem& item) const;
  // Whether the item is of e4m3 and is packed as it is.
  bool StaysFp8(const WeightItem& item) const;
  // Returns the values of the item in the compute dtype.
  absl::StatusOr<kernels::HostTensor> Values(const WeightItem& item);
  // Makes the staging memory hold so many bytes.
  std::byte* Stage(size_t bytes);
  // Returns the item dense and in `dtype`, in the checkpoint's own memory where that is possible.
  kernels::HostTensor Dense(const WeightItem& item, kernels::DType stored, kernels::DType dtype);
  void WriteToCache(const std::string& name, const kernels::HostTensor& tensor);
  void ReadAhead();

  const ModelConfig& config_;
  const CheckpointFiles& files_;
  const kernels::DType dtype_;
  const int64_t fp8_multiple_;
  QuantizedReader quantized_;
  Fp8Reader fp8_;
  const std::vector<const StoredTensor*> order_;
  std::unique_ptr<LoadCacheWriter> writer_;
  std::unique_ptr<std::byte[]> staging_;
  size_t staging_bytes_ = 0;
  int64_t done_ = 0;
  size_t next_ = 0;    // of order_, to be read ahead
  int64_t asked_ = 0;  // bytes of order_ before next_
};

// Takes the weights from a load cache. What is wrong with the cache is an error, and stays in
// defect().
class CacheSource final : public WeightSource {
 public:
  CacheSource(std::unique_ptr<LoadCacheReader> reader, kernels::DType dtype)
      : reader_(std::move(reader)), dtype_(dtype) {}

  absl::StatusOr<WeightData> Matrix(const WeightItem& item) override;
  absl::StatusOr<kernels::HostTensor> Vector(const WeightItem& item) override;
  void Finish(const WeightItem& item) override;
  int64_t done() const override { return done_; }
  int64_t total() const override { return reader_->data_bytes(); }
  const absl::Status& defect() const { return defect_; }

 private:
  absl::StatusOr<kernels::HostTensor> Read(const WeightItem& item, kernels::DType dtype,
                                           int64_t rows, int64_t cols);

  const std::unique_ptr<LoadCacheReader> reader_;
  const kernels::DType dtype_;  // of matrices
  int64_t done_ = 0;
  int64_t reading_ = 0;  // bytes of the item that was read last
  absl::Status defect_;
};

}  // namespace baton
