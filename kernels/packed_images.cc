#include "kernels/packed_images.h"

#include "absl/strings/str_cat.h"

namespace baton::kernels {
namespace {

class ViewBuffer final : public Buffer {
 public:
  explicit ViewBuffer(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  size_t size() const override { return bytes_.size(); }

 private:
  const std::span<const std::byte> bytes_;
};

}  // namespace

absl::Status CheckImage(const PackedImage& image, const std::string& form, size_t bytes) {
  const size_t found = image.parts.size() == 1 ? image.parts[0].size() : 0;
  if (image.form == form && found == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "an image '", image.form, "' of ", image.parts.size(), " parts, the only one of ", found,
      " bytes; expected '", form, "' and one part of ", bytes, " bytes"));
}

std::unique_ptr<Buffer> ViewHost(std::span<const std::byte> bytes) {
  return std::make_unique<ViewBuffer>(bytes);
}

}  // namespace baton::kernels
