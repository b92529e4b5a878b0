// Quantized weights behind the checks of their checkpoint: what is not refused becomes tensors
// whose every element can be read, and which keep what QuantizedTensor and HostTensor promise.
#include <sanitizer/asan_interface.h>

#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/kv_scales.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_loader.h"
#include "common/model/weight_source.h"
#include "common/model/weights.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"
#include "kernels/quantized_tensor.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/listed_checkpoint.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

using kernels::DType;
using kernels::HostTensor;
using kernels::QuantizedTensor;

volatile double read_values = 0;  // keeps the compiler from leaving reads out

bool HoldsExactly(DType dtype, float value) {
  std::array<std::byte, sizeof(float)> stored = {};
  float back = 0;
  CopyFromFloats(std::span(&value, 1), dtype, stored.data());
  CopyToFloats(stored.data(), dtype, std::span(&back, 1));
  return back == value;
}

// The number of a group, by its index in `numbers`, is also a step times a unit.
void CheckStep(const QuantizedTensor& tensor, const kernels::GroupSteps& of, const float* numbers,
               int64_t index) {
  const int64_t units = tensor.groups() / tensor.unit_groups;
  const int64_t unit =
      index / tensor.groups() * units + index % tensor.groups() / tensor.unit_groups;
  const float value = static_cast<float>(of.steps[index]) * kernels::FloatFromF16(of.units[unit]);
  BATON_CHECK(value == numbers[index]) << value << " for " << numbers[index];
}

void CheckGroups(const QuantizedTensor& tensor) {
  if (tensor.unit_groups > 0) {
    BATON_CHECK(tensor.groups() % tensor.unit_groups == 0) << tensor.groups();
  }
  for (int64_t i = 0; i < tensor.rows * tensor.groups(); ++i) {
    BATON_CHECK(std::isfinite(tensor.scales[i])) << i;
    BATON_CHECK(HoldsExactly(tensor.scale_dtype, tensor.scales[i])) << tensor.scales[i];
    if (tensor.unit_groups > 0) CheckStep(tensor, tensor.scale_steps, tensor.scales, i);
    if (tensor.minimums == nullptr) continue;
    BATON_CHECK(std::isfinite(tensor.minimums[i])) << i;
    BATON_CHECK(HoldsExactly(tensor.scale_dtype, tensor.minimums[i])) << tensor.minimums[i];
    if (tensor.unit_groups > 0) CheckStep(tensor, tensor.minimum_steps, tensor.minimums, i);
  }
}

// Every column takes an input, and no two the same.
void CheckInputs(const QuantizedTensor& tensor) {
  if (tensor.input_of == nullptr) return;
  std::vector<bool> taken(static_cast<size_t>(tensor.cols));
  for (int64_t col = 0; col < tensor.cols; ++col) {
    const int32_t input = tensor.input_of[col];
    BATON_CHECK(input >= 0 && input < tensor.cols) << input;
    BATON_CHECK(!taken[static_cast<size_t>(input)]) << input;
    taken[static_cast<size_t>(input)] = true;
  }
}

void ReadIntegers(const QuantizedTensor& tensor) {
  BATON_CHECK(tensor.bits == 4 || tensor.bits == 8) << tensor.bits;
  CheckGroups(tensor);
  CheckInputs(tensor);
  double sum = 0;
  for (int64_t row = 0; row < tensor.rows; ++row) {
    for (int64_t col = 0; col < tensor.cols; ++col) {
      const int code = tensor.codes[row * tensor.cols + col];
      BATON_CHECK(tensor.bits == 8 || (code >= -8 && code <= 7)) << code;
      sum += tensor.at(row, col);
    }
  }
  read_values = sum;
}

void ReadCodesOfE4m3(const HostTensor& tensor) {
  BATON_CHECK(std::isfinite(tensor.input_scale) && tensor.input_scale >= 0) << tensor.input_scale;
  const auto* const codes = static_cast<const uint8_t*>(tensor.data);
  double sum = 0;
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const float scale = tensor.row_scales[row];
    BATON_CHECK(std::isfinite(scale) && scale >= 0) << scale;
    for (int64_t col = 0; col < tensor.cols; ++col) {
      const float value = kernels::FloatFromE4m3(codes[row * tensor.cols + col]);
      BATON_CHECK(!std::isnan(value)) << row << ", " << col;
      sum += value * scale;
    }
  }
  read_values = sum;
}

void ReadElements(const HostTensor& tensor) {
  BATON_CHECK(tensor.data != nullptr);
  if (tensor.dtype == DType::kFp8) return ReadCodesOfE4m3(tensor);
  std::vector<float> values(static_cast<size_t>(tensor.rows * tensor.cols));
  CopyToFloats(static_cast<const std::byte*>(tensor.data), tensor.dtype, values);
  double sum = 0;
  for (const float value : values) sum += value;
  read_values = sum;
}

// As long as it lives, AddressSanitizer takes all tensors but the parts of an item for memory that
// must not be read. Tensors lie beside each other, where it would not notice by itself that what
// belongs to one is read from the next.
class OthersPoisoned final {
 public:
  OthersPoisoned(const ModelConfig& config, const CheckpointFiles& files, const WeightItem& item)
      : files_(files) {
    for (const StoredTensor* tensor : files.tensors()) {
      ASAN_POISON_MEMORY_REGION(tensor->data.data(), tensor->data.size());
    }
    for (const RowRange& range : item.ranges) {
      for (const StoredTensor* part : StoredPartsOf(config, files, range.name)) {
        ASAN_UNPOISON_MEMORY_REGION(part->data.data(), part->data.size());
      }
    }
  }
  ~OthersPoisoned() {
    for (const StoredTensor* tensor : files_.tensors()) {
      ASAN_UNPOISON_MEMORY_REGION(tensor->data.data(), tensor->data.size());
    }
  }
  OthersPoisoned(const OthersPoisoned&) = delete;
  OthersPoisoned& operator=(const OthersPoisoned&) = delete;

 private:
  const CheckpointFiles& files_;
};

// Reads what a backend would be given to pack, and makes nothing of it.
class ReadingMaker final : public WeightMaker {
 public:
  ReadingMaker(const ModelConfig& config, const CheckpointFiles& files, WeightSource& source)
      : config_(config), files_(files), source_(source) {}

  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item,
                                                                bool) override {
    const OthersPoisoned guard(config_, files_, item);
    BATON_ASSIGN_OR_RETURN(const WeightData data, source_.Matrix(item));
    if (data.quantized.has_value()) {
      BATON_CHECK(data.quantized->rows == item.rows() && data.quantized->cols == item.cols);
      ReadIntegers(*data.quantized);
      // Whether these columns can be had apart is for a backend to say.
      const auto part = ResolveShard(*data.quantized, data.shard);
      if (Accepted(part.status())) Accepted(GroupOfShard(*data.quantized, *part).status());
    } else {
      ReadElements(data.tensor);
      const auto part = kernels::ResolveShard(data.tensor, data.shard);
      BATON_CHECK(part.ok()) << part.status().ToString();
      BATON_CHECK(data.tensor.rows == item.rows() && part->in_end - part->in_begin == item.width());
    }
    source_.Finish(item);
    return std::unique_ptr<kernels::PackedWeight>();
  }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) override {
    const OthersPoisoned guard(config_, files_, item);
    BATON_ASSIGN_OR_RETURN(const HostTensor vector, source_.Vector(item));
    BATON_CHECK(vector.rows == 1 && vector.cols == item.rows()) << item.name;
    ReadElements(vector);
    source_.Finish(item);
    return std::unique_ptr<kernels::Buffer>();
  }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Table(const WeightItem& item,
                                                         bool read_again) override {
    const OthersPoisoned guard(config_, files_, item);
    BATON_ASSIGN_OR_RETURN(const WeightData table, source_.Matrix(item));
    BATON_CHECK(!table.quantized.has_value()) << "a table is uploaded as floats";
    ReadElements(table.tensor);
    if (!read_again) source_.Finish(item);
    return std::unique_ptr<kernels::Buffer>();
  }

 private:
  const ModelConfig& config_;
  const CheckpointFiles& files_;
  WeightSource& source_;
};

// Reads what the last of so many ranks has, for a device that computes in `dtype`.
void ReadRank(const ModelConfig& config, const CheckpointFiles& files, int32_t ranks, DType dtype,
              int fp8_multiple) {
  const auto shape = LocalShape::Of(config, ranks - 1, ranks);
  if (!Accepted(shape.status())) return;
  CheckpointSource source(config, files, {.compute_dtype = dtype, .fp8_multiple = fp8_multiple},
                          PackingOrder(config, files), nullptr);
  ReadingMaker maker(config, files, source);
  const auto weights = WeightLoader(config, *shape, /*embeds_from_packed=*/false, maker).Load();
  if (!Accepted(weights.status())) return;
  BATON_CHECK(ranks > 1 || source.done() <= source.total()) << source.done();
}

void ReadCheckpoint(const std::string& path) {
  const auto config = LoadModelConfig(path);
  if (!Accepted(config.status())) return;
  const auto files = CheckpointFiles::Open(path);
  if (!Accepted(files.status()) || !Accepted(CheckTensors(*config, **files))) return;
  Accepted(CheckTiedOutput(*config, **files));
  if (const auto scales = ReadKvScales(*config, **files); Accepted(scales.status())) {
    for (const KvScales& of_layer : *scales) {
      BATON_CHECK(std::isfinite(of_layer.k) && of_layer.k > 0) << of_layer.k;
      BATON_CHECK(std::isfinite(of_layer.v) && of_layer.v > 0) << of_layer.v;
    }
  }
  ReadRank(*config, **files, 1, DType::kF32, 0);
  ReadRank(*config, **files, 1, DType::kBF16, 8);  // as a GPU that has products of e4m3
  ReadRank(*config, **files, 2, DType::kBF16, 0);
}

}  // namespace

// A digit for the kind of file: safetensors as a list and as they are, behind config.json and the
// divider; GGUF as a list and as it is.
FUZZ_TARGET(quantized) {
  static const ScratchFolder folder;
  const unsigned kind = TakeChoice(&input, 4);
  if (kind >= 2) {
    return ReadCheckpoint(folder.Write("m.gguf", kind == 2 ? GgufOf(input) : std::string(input)));
  }
  folder.Write("config.json", TakeSection(&input));
  folder.Write("model.safetensors", kind == 0 ? SafetensorsOf(input) : std::string(input));
  ReadCheckpoint(folder.path());
}

}  // namespace baton::fuzz
