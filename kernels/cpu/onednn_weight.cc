#include "kernels/cpu/onednn_weight.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

using dnnl::memory;

// How many elements lie between the start of a blocked layout and index `index` of dimension `dim`,
// where the other index is 0.
int64_t BlockedOffset(const dnnl_memory_desc_t& layout, int dim, int64_t index) {
  const dnnl_blocking_desc_t& blocking = layout.format_desc.blocking;
  int64_t offset = 0;
  int64_t inner_stride = 1;
  for (int i = blocking.inner_nblks - 1; i >= 0; --i) {
    if (blocking.inner_idxs[i] == dim) {
      offset += index % blocking.inner_blks[i] * inner_stride;
      index /= blocking.inner_blks[i];
    }
    inner_stride *= blocking.inner_blks[i];
  }
  return offset + index * blocking.strides[dim];
}

// The layout in words: equal words are equal layouts.
std::string FormOf(const dnnl_memory_desc_t& layout) {
  const dnnl_blocking_desc_t& blocking = layout.format_desc.blocking;
  std::string form = absl::StrCat("oneDNN type ", static_cast<int>(layout.data_type), ", ",
                                  layout.dims[1], " x ", layout.dims[0], " padded to ",
                                  layout.padded_dims[1], " x ", layout.padded_dims[0], ", strides ",
                                  blocking.strides[1], " ", blocking.strides[0], ", blocks");
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    absl::StrAppend(&form, " ", blocking.inner_idxs[i], ":", blocking.inner_blks[i]);
  }
  return form;
}

absl::Status CheckLayout(const memory::desc& layout) {
  if (layout.data.format_kind == dnnl_blocked && layout.data.extra.flags == 0 &&
      layout.data.offset0 == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "oneDNN packs weights in a layout that is not plainly blocked; use --isa avx2");
}

// oneDNN's name for `dtype`.
memory::data_type OneDnnType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return memory::data_type::f32;
    case DType::kBF16:
      return memory::data_type::bf16;
    case DType::kF16:
      return memory::data_type::f16;
    case DType::kInt8:
    case DType::kFp8:
      break;  // of KV caches alone
  }
  return memory::data_type::undef;
}

}  // namespace

base::Mutex& OneDnnCreation() {
  static auto& mutex = *new base::Mutex;
  return mutex;
}

OneDnnWeight::OneDnnWeight(int64_t out, int64_t in, memory::desc layout,
                           std::unique_ptr<Buffer> buffer)
    : out_(out), in_(in), layout_(std::move(layout)), buffer_(std::move(buffer)) {
  column_offsets_.resize(in_);
  for (int64_t k = 0; k < in_; ++k) {
    column_offsets_[k] = static_cast<int32_t>(BlockedOffset(layout_.data, 0, k));
  }
}

absl::StatusOr<std::unique_ptr<PackedWeight>> OneDnnWeight::Pack(const HostTensor& weight,
                                                                 const Shard& part,
                                                                 const memory::desc& layout,
                                                                 const dnnl::engine& engine,
                                                                 const dnnl::stream& stream) {
  BATON_RETURN_IF_ERROR(CheckLayout(layout));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  HostTensor source = weight;
  std::unique_ptr<Buffer> floats;
  if (weight.dtype == DType::kF16) {
    BATON_ASSIGN_OR_RETURN(floats, CopyConverted(weight, DType::kF32));
    source.data = floats->data();
    source.dtype = DType::kF32;
  }
  BATON_ASSIGN_OR_RETURN(auto buffer, AllocateHost(layout.get_size()));
  const int64_t skipped = part.out_begin * weight.cols + part.in_begin;
  const auto* first = static_cast<const std::byte*>(source.data) + skipped * SizeOf(source.dtype);
  const memory::desc plain({in, out}, OneDnnType(source.dtype), memory::dims{1, weight.cols});
  memory from(plain, engine, const_cast<std::byte*>(first));
  memory to(layout, engine, buffer->data());
  dnnl::reorder reorder;
  {
    base::MutexLock lock(&OneDnnCreation());
    reorder = dnnl::reorder(from, to);
  }
  reorder.execute(stream, from, to);
  return std::unique_ptr<PackedWeight>(new OneDnnWeight(out, in, layout, std::move(buffer)));
}

PackedImage OneDnnWeight::Image() const {
  return {.form = FormOf(layout_.data),
          .parts = {{static_cast<const std::byte*>(data()), bytes()}}};
}

absl::StatusOr<std::unique_ptr<PackedWeight>> OneDnnWeight::FromImage(const PackedImage& image,
                                                                      const memory::desc& layout) {
  BATON_RETURN_IF_ERROR(CheckLayout(layout));
  BATON_RETURN_IF_ERROR(CheckImage(image, FormOf(layout.data), layout.get_size()));
  return std::unique_ptr<PackedWeight>(
      new OneDnnWeight(layout.dims()[1], layout.dims()[0], layout, ViewHost(image.parts[0])));
}

void OneDnnWeight::UnpackRow(int64_t row, float* to) const {
  const float* from = static_cast<const float*>(data()) + BlockedOffset(layout_.data, 1, row);
  for (int64_t k = 0; k < in_; ++k) to[k] = from[column_offsets_[k]];
}

}  // namespace baton::kernels::cpu
