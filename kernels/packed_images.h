#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace baton::kernels {

// A packed weight as bytes, which it does not own: what can be written to a file, mapped by another
// process and multiplied by where it lies.
struct PackedImage {
  std::string form;  // how the parts are laid out, in the words of the backend: printable ASCII
  std::vector<std::span<const std::byte>> parts;
};

// How a part has to lie in memory: at a page, as large weights of a backend's own do, and with room
// for vector loads beyond its end.
inline constexpr size_t kImageAlignment = 4096;
inline constexpr size_t kImageMargin = 64;  // bytes behind a part that can be read

// The images of a backend whose packed weights are nothing but bytes in the host's memory. Its
// buffers lie there too, so the bytes of a vector or a table are their own image.
class PackedImages {
 public:
  virtual ~PackedImages() = default;

  // What decides the bytes of an image beside the weight itself: the instruction set, the kernel
  // and the version of its layout or of its library. Images of equal layouts are interchangeable.
  virtual std::string layout() const = 0;
  // The logical CPUs whose threads read the weights.
  virtual std::vector<int> cpus() const = 0;
  // Valid as long as the weight.
  virtual PackedImage ImageOf(const PackedWeight& weight) const = 0;
  // The weight [out, in] of an image. The parts are not copied: they outlive the weight, and are
  // aligned and followed by readable bytes as said above. INVALID_ARGUMENT for an image that this
  // backend would not make of a weight of this size.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image,
                                                                  int64_t out,
                                                                  int64_t in) const = 0;
};

// INVALID_ARGUMENT, with found and expected, unless `image` has this form and one part of so many
// bytes.
absl::Status CheckImage(const PackedImage& image, const std::string& form, size_t bytes);

// A Buffer over memory of somebody else, who keeps it until the Buffer is gone. It is only read.
std::unique_ptr<Buffer> ViewHost(std::span<const std::byte> bytes);

}  // namespace baton::kernels
