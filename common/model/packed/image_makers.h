#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/packed/packed_file.h"
#include "common/model/weight_loader.h"
#include "common/model/weight_source.h"
#include "kernels/backend.h"
#include "kernels/dtype.h"
#include "kernels/packed_images.h"

namespace baton {

// What is done with the image of a weight, which is gone when this returns.
using ImageSink =
    std::function<absl::Status(const std::string& name, const kernels::PackedImage& image)>;

// Packs what another maker packs, gives its image to a sink and keeps nothing.
class SinkMaker final : public WeightMaker {
 public:
  // All outlive this. `dtype` is that of tables.
  SinkMaker(PackingMaker& packing, const kernels::PackedImages& images, kernels::DType dtype,
            ImageSink sink)
      : packing_(packing), images_(images), dtype_(dtype), sink_(std::move(sink)) {}

  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item,
                                                                bool keep_precision) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Table(const WeightItem& item,
                                                         bool read_again) override;
  // What the sink said, and not the checkpoint.
  const absl::Status& failure() const { return failure_; }

 private:
  absl::Status AddRows(const std::string& name, const kernels::Buffer& buffer, kernels::DType dtype,
                       int64_t rows, int64_t cols);
  absl::Status Add(const std::string& name, const kernels::PackedImage& image);

  PackingMaker& packing_;
  const kernels::PackedImages& images_;
  const kernels::DType dtype_;
  const ImageSink sink_;
  absl::Status failure_;
};

// Takes weights where they lie in a file. Every error is a defect of the file.
class MappingMaker final : public WeightMaker {
 public:
  MappingMaker(const PackedFile& file, const kernels::PackedImages& images, kernels::DType dtype)
      : file_(file), images_(images), dtype_(dtype) {}

  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item,
                                                                bool keep_precision) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Table(const WeightItem& item,
                                                         bool read_again) override;

 private:
  absl::Status Defect(const std::string& name, const absl::Status& why) const;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Rows(const std::string& name,
                                                        kernels::DType dtype, int64_t rows,
                                                        int64_t cols);

  const PackedFile& file_;
  const kernels::PackedImages& images_;
  const kernels::DType dtype_;
};

// FAILED_PRECONDITION, naming it, unless the file has this very image under `name`.
absl::Status CheckSameImage(const PackedFile& file, const std::string& name,
                            const kernels::PackedImage& image);

}  // namespace baton
