#include "common/model/packed/image_makers.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

using kernels::Buffer;
using kernels::DType;
using kernels::PackedImage;
using kernels::PackedWeight;

std::string RowsForm(DType dtype, int64_t rows, int64_t cols) {
  return absl::StrCat("rows of ", std::string(kernels::Name(dtype)), ", ", rows, " x ", cols);
}

bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedWeight>> SinkMaker::Matrix(const WeightItem& item,
                                                                bool keep_precision) {
  BATON_ASSIGN_OR_RETURN(const auto packed, packing_.Matrix(item, keep_precision));
  BATON_RETURN_IF_ERROR(Add(item.name, images_.ImageOf(*packed)));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Buffer>> SinkMaker::Vector(const WeightItem& item) {
  BATON_ASSIGN_OR_RETURN(const auto buffer, packing_.Vector(item));
  BATON_RETURN_IF_ERROR(AddRows(item.name, *buffer, DType::kF32, 1, item.rows()));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Buffer>> SinkMaker::Table(const WeightItem& item, bool read_again) {
  BATON_ASSIGN_OR_RETURN(const auto buffer, packing_.Table(item, read_again));
  BATON_RETURN_IF_ERROR(AddRows(item.name, *buffer, dtype_, item.rows(), item.width()));
  return nullptr;
}

absl::Status SinkMaker::AddRows(const std::string& name, const Buffer& buffer, DType dtype,
                                int64_t rows, int64_t cols) {
  return Add(name, {.form = RowsForm(dtype, rows, cols),
                    .parts = {{static_cast<const std::byte*>(buffer.data()), buffer.size()}}});
}

absl::Status SinkMaker::Add(const std::string& name, const PackedImage& image) {
  failure_ = sink_(name, image);
  return failure_;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> MappingMaker::Matrix(const WeightItem& item,
                                                                   bool /*keep_precision*/) {
  BATON_ASSIGN_OR_RETURN(const PackedImage image, file_.Find(item.name));
  auto weight = images_.FromImage(image, item.rows(), item.width());
  if (!weight.ok()) return Defect(item.name, weight.status());
  return weight;
}

absl::StatusOr<std::unique_ptr<Buffer>> MappingMaker::Vector(const WeightItem& item) {
  return Rows(item.name, DType::kF32, 1, item.rows());
}

absl::StatusOr<std::unique_ptr<Buffer>> MappingMaker::Table(const WeightItem& item,
                                                            bool /*read_again*/) {
  return Rows(item.name, dtype_, item.rows(), item.width());
}

absl::Status MappingMaker::Defect(const std::string& name, const absl::Status& why) const {
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": ", name, ": ", std::string(why.message())));
}

absl::StatusOr<std::unique_ptr<Buffer>> MappingMaker::Rows(const std::string& name, DType dtype,
                                                           int64_t rows, int64_t cols) {
  BATON_ASSIGN_OR_RETURN(const PackedImage image, file_.Find(name));
  const auto bytes = static_cast<size_t>(rows * cols) * SizeOf(dtype);
  const absl::Status fits = CheckImage(image, RowsForm(dtype, rows, cols), bytes);
  if (!fits.ok()) return Defect(name, fits);
  return kernels::ViewHost(image.parts[0]);
}

absl::Status CheckSameImage(const PackedFile& file, const std::string& name,
                            const PackedImage& image) {
  BATON_ASSIGN_OR_RETURN(const PackedImage stored, file.Find(name));
  if (stored.form == image.form && std::ranges::equal(stored.parts, image.parts, SameBytes)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), " is of a checkpoint with other weights: ", name, " differs"));
}

}  // namespace baton
