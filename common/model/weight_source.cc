#include "common/model/weight_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_types.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/gguf_blocks.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "spdlog/spdlog.h"

namespace baton {

using kernels::DType;
using kernels::HostTensor;

namespace {

// How many bytes are on their way from the disk while a tensor is packed: enough to keep a fast
// disk busy, few enough that the pages are still in memory when their turn comes.
constexpr int64_t kReadAheadBytes = int64_t{256} << 20;

bool IsGguf(const ModelConfig& config) {
  return config.quantization.has_value() &&
         config.quantization->format == QuantizationConfig::Format::kGguf;
}

bool IsFp8(const ModelConfig& config) {
  return config.quantization.has_value() && config.quantization->fp8();
}

bool IsAligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % SizeOf(dtype) == 0;
}

}  // namespace

int64_t WeightItem::rows() const {
  int64_t sum = 0;
  for (const RowRange& range : ranges) sum += range.end - range.begin;
  return sum;
}

CheckpointSource::CheckpointSource(const ModelConfig& config, const CheckpointFiles& files,
                                   const kernels::BackendInfo& info,
                                   std::vector<const StoredTensor*> order,
                                   std::unique_ptr<LoadCacheWriter> writer)
    : config_(config),
      files_(files),
      dtype_(info.compute_dtype),
      fp8_multiple_(info.fp8_multiple),
      quantized_(config, files),
      fp8_(config, files),
      order_(std::move(order)),
      writer_(std::move(writer)) {
  ReadAhead();
}

const StoredTensor& CheckpointSource::Find(const std::string& name) const {
  const StoredTensor* tensor = files_.Find(name);
  BATON_CHECK(tensor != nullptr) << name << " passed CheckTensors";
  return *tensor;
}

absl::StatusOr<DType> CheckpointSource::DTypeOf(const WeightItem& item) const {
  const StoredTensor& first = Find(item.ranges.front().name);
  for (const RowRange& range : item.ranges) {
    if (Find(range.name).dtype == first.dtype) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tensors ", first.name, " of type ", first.dtype, " and ", range.name, " of type ",
        Find(range.name).dtype, " are used as one; expected one type for both"));
  }
  return TensorDType(first);
}

HostTensor CheckpointSource::Dense(const WeightItem& item, DType stored, DType dtype) {
  HostTensor dense = {.dtype = dtype, .rows = item.rows(), .cols = item.width()};
  const int64_t stored_bytes = static_cast<int64_t>(SizeOf(stored));
  std::vector<TensorSlice> slices;
  const auto add = [&](const StoredTensor& tensor, int64_t row, int64_t rows, int64_t step) {
    slices.push_back(
        {.data = tensor.data.data() + (row * item.cols + item.col_begin) * stored_bytes,
         .dtype = stored,
         .rows = rows,
         .cols = item.width(),
         .stride = step * item.cols});
  };
  for (const RowRange& range : item.ranges) {
    const StoredTensor& tensor = Find(range.name);
    if (tensor.head_rows == 0) {
      add(tensor, range.begin, range.end - range.begin, 1);
      continue;
    }
    BATON_CHECK(range.begin % tensor.head_rows == 0 && range.end % tensor.head_rows == 0)
        << range.name;
    for (int64_t head = range.begin; head < range.end; head += tensor.head_rows) {
      for (const int64_t half : {0, 1}) add(tensor, head + half, tensor.head_rows / 2, 2);
    }
  }
  const bool in_place = slices.size() == 1 && slices[0].stride == item.width() && stored == dtype;
  if (in_place && IsAligned(slices[0].data, dtype)) {
    dense.data = slices[0].data;
    return dense;
  }
  const size_t bytes = static_cast<size_t>(dense.rows * dense.cols) * SizeOf(dtype);
  std::byte* const staged = Stage(bytes);
  CopySlices(slices, dtype, staged);
  dense.data = staged;
  return dense;
}

std::byte* CheckpointSource::Stage(size_t bytes) {
  if (staging_bytes_ < bytes) {
    staging_bytes_ = bytes;
    staging_ = std::make_unique_for_overwrite<std::byte[]>(staging_bytes_);
  }
  return staging_.get();
}

bool CheckpointSource::StaysFp8(const WeightItem& item) const {
  return fp8_multiple_ > 0 && !item.widened && MayStayFp8(config_, dtype_) &&
         item.rows() % fp8_multiple_ == 0 && item.width() % fp8_multiple_ == 0;
}

bool CheckpointSource::NeedsValues(const WeightItem& item) const {
  if (IsFp8(config_)) return IsQuantized(config_, files_, item.ranges.front().name);
  if (!files_.files().empty()) return false;
  const std::string& first = Find(item.ranges.front().name).dtype;
  return std::ranges::any_of(item.ranges, [&](const RowRange& range) {
    const std::string& dtype = Find(range.name).dtype;
    return dtype != first || FindGgufType(dtype)->integers();
  });
}

absl::StatusOr<HostTensor> CheckpointSource::Values(const WeightItem& item) {
  HostTensor dense = {.dtype = dtype_, .rows = item.rows(), .cols = item.cols};
  const size_t row_bytes = static_cast<size_t>(item.cols) * SizeOf(dtype_);
  std::byte* out = Stage(static_cast<size_t>(dense.rows) * row_bytes);
  dense.data = out;
  if (IsFp8(config_)) {
    BATON_RETURN_IF_ERROR(fp8_.WriteValues(item, dtype_, out));
    return dense;
  }
  for (const RowRange& range : item.ranges) {
    BATON_RETURN_IF_ERROR(
        WriteGgufValues(Find(range.name), range.begin, range.end, item.cols, dtype_, out));
    out += static_cast<size_t>(range.end - range.begin) * row_bytes;
  }
  return dense;
}

absl::StatusOr<bool> CheckpointSource::Quantized(const WeightItem& item) const {
  const bool first = IsQuantized(config_, files_, item.ranges.front().name);
  for (const RowRange& range : item.ranges) {
    if (IsQuantized(config_, files_, range.name) == first) continue;
    if (IsGguf(config_)) return false;
    return absl::InvalidArgumentError(
        absl::StrCat("tensors ", item.ranges.front().name, " and ", range.name,
                     " are used as one, and only one of them is quantized; expected both or none"));
  }
  return first;
}

absl::StatusOr<WeightData> CheckpointSource::Matrix(const WeightItem& item) {
  BATON_ASSIGN_OR_RETURN(const bool quantized, Quantized(item));
  if (quantized && IsFp8(config_) && StaysFp8(item)) {
    BATON_CHECK(writer_ == nullptr) << "a load cache holds floats";
    BATON_ASSIGN_OR_RETURN(const HostTensor codes, fp8_.Codes(item));
    return WeightData{.tensor = codes,
                      .shard = {.in_begin = item.col_begin, .in_end = item.col_end}};
  }
  if (quantized && !IsFp8(config_)) {
    BATON_CHECK(writer_ == nullptr) << "a load cache holds no integers";
    BATON_ASSIGN_OR_RETURN(kernels::QuantizedTensor tensor, quantized_.Read(item));
    return WeightData{.quantized = tensor,
                      .shard = {.in_begin = item.col_begin, .in_end = item.col_end}};
  }
  if (NeedsValues(item)) {
    BATON_ASSIGN_OR_RETURN(const HostTensor values, Values(item));
    if (writer_ != nullptr) {
      BATON_CHECK(item.width() == item.cols) << item.name << " is joined of whole rows";
      WriteToCache(item.name, values);
    }
    return WeightData{.tensor = values,
                      .shard = {.in_begin = item.col_begin, .in_end = item.col_end}};
  }
  BATON_ASSIGN_OR_RETURN(const DType stored, DTypeOf(item));
  if (writer_ != nullptr) {
    const HostTensor dense = Dense(item, stored, dtype_);
    WriteToCache(item.name, dense);
    return WeightData{.tensor = dense};
  }
  // The backend takes its columns and converts by itself.
  WeightItem whole = item;
  whole.col_begin = 0;
  whole.col_end = -1;
  return WeightData{.tensor = Dense(whole, stored, stored),
                    .shard = {.in_begin = item.col_begin, .in_end = item.col_end}};
}

absl::StatusOr<HostTensor> CheckpointSource::Vector(const WeightItem& item) {
  BATON_ASSIGN_OR_RETURN(const DType stored, DTypeOf(item));
  HostTensor vector = Dense(item, stored, writer_ != nullptr ? DType::kF32 : stored);
  std::swap(vector.rows, vector.cols);
  if (writer_ != nullptr) WriteToCache(item.name, vector);
  return vector;
}

void CheckpointSource::WriteToCache(const std::string& name, const HostTensor& tensor) {
  const absl::Status written = writer_->Add(name, tensor);
  if (written.ok()) return;
  spdlog::warn("no load cache is written, the load goes on without: {}",
               std::string(written.message()));
  writer_.reset();
}

void CheckpointSource::CommitCache() {
  if (writer_ == nullptr) return;
  const absl::Status written = writer_->Commit();
  if (written.ok()) {
    spdlog::info("load cache written: {}", writer_->path());
  } else {
    spdlog::warn("no load cache is written: {}", std::string(written.message()));
  }
  writer_.reset();
}

void CheckpointSource::Finish(const WeightItem& item) {
  for (const RowRange& range : item.ranges) {
    for (const StoredTensor* tensor : StoredPartsOf(config_, files_, range.name)) {
      CheckpointFiles::DropPages(*tensor);
      done_ += static_cast<int64_t>(tensor->data.size());
    }
  }
  ReadAhead();
}

void CheckpointSource::ReadAhead() {
  while (next_ < order_.size() && asked_ < done_ + kReadAheadBytes) {
    CheckpointFiles::Prefetch(*order_[next_]);
    asked_ += static_cast<int64_t>(order_[next_]->data.size());
    ++next_;
  }
}

absl::StatusOr<HostTensor> CacheSource::Read(const WeightItem& item, DType dtype, int64_t rows,
                                             int64_t cols) {
  auto tensor = reader_->Read(item.name, dtype, rows, cols);
  if (!tensor.ok()) defect_ = tensor.status();
  reading_ = rows * cols * static_cast<int64_t>(SizeOf(dtype));
  return tensor;
}

absl::StatusOr<WeightData> CacheSource::Matrix(const WeightItem& item) {
  BATON_ASSIGN_OR_RETURN(const HostTensor tensor, Read(item, dtype_, item.rows(), item.width()));
  return WeightData{.tensor = tensor};
}

absl::StatusOr<HostTensor> CacheSource::Vector(const WeightItem& item) {
  return Read(item, DType::kF32, 1, item.rows());
}

void CacheSource::Finish(const WeightItem& item) {
  reader_->Drop(item.name);
  done_ += reading_;
}

}  // namespace baton
