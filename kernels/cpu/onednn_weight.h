#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "dnnl.hpp"
#include "kernels/backend.h"
#include "kernels/packed_images.h"

namespace baton::kernels::cpu {

// The mutex to hold while a primitive or its description is made. The ranks of one process do that
// side by side, and oneDNN's cache shares what they make.
base::Mutex& OneDnnCreation();

// A weight [out, in] in oneDNN's blocked layout. The offset of an element is a term of its row plus
// a term of its column, so rows can be read back exactly.
class OneDnnWeight final : public PackedWeight {
 public:
  // `layout` describes [in, out], as oneDNN's matmul sees weights.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                            const Shard& part,
                                                            const dnnl::memory::desc& layout,
                                                            const dnnl::engine& engine,
                                                            const dnnl::stream& stream);

  // `layout` is the one in which a weight of this size is packed. INVALID_ARGUMENT as
  // PackedImages::FromImage.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image,
                                                                 const dnnl::memory::desc& layout);
  PackedImage Image() const;

  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return buffer_->size(); }
  void* data() const { return buffer_->data(); }
  const dnnl::memory::desc& layout() const { return layout_; }

  // Writes row `row` to `to` [in].
  void UnpackRow(int64_t row, float* to) const;

 private:
  OneDnnWeight(int64_t out, int64_t in, dnnl::memory::desc layout, std::unique_ptr<Buffer> buffer);

  int64_t out_;
  int64_t in_;
  dnnl::memory::desc layout_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<int32_t> column_offsets_;  // [in]
};

}  // namespace baton::kernels::cpu
