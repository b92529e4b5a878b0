#include "kernels/cpu/onednn_gemm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cpu/onednn_weight.h"

namespace baton::kernels::cpu {
namespace {

using dnnl::memory;

// The ladder has steps of one up to 64 rows, where padding or cutting would cost most, and coarser
// ones above.
std::vector<int> MakeRungs() {
  std::vector<int> rungs;
  for (int rows = 1; rows <= 64; ++rows) rungs.push_back(rows);
  for (int rows = 80; rows <= 256; rows += 16) rungs.push_back(rows);
  for (int rows = 320; rows <= 512; rows += 64) rungs.push_back(rows);
  return rungs;
}

}  // namespace

struct OneDnnGemm::Primitive {
  dnnl::matmul matmul;
  std::string implementation;
  memory source;
  memory weights;
  memory bias;
  memory destination;
  memory scratchpad;
};

OneDnnGemm::OneDnnGemm()
    : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), rungs_(MakeRungs()) {}

absl::StatusOr<std::unique_ptr<Gemm>> OneDnnGemm::Create() try {
  std::unique_ptr<OneDnnGemm> gemm(new OneDnnGemm);
  gemm->implementation_ =
      gemm->Describe(gemm->LayoutOf(256, 256), Kind::kStore, 16).impl_info_str();
  if (gemm->implementation_.rfind("brg", 0) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("oneDNN chose '", gemm->implementation_,
                     "' for a matmul in float32, expected a 'brg' one (is ONEDNN_MAX_CPU_ISA "
                     "set?); use --isa avx2"));
  }
  return gemm;
} catch (const dnnl::error& error) {
  return absl::FailedPreconditionError(
      absl::StrCat("oneDNN has no matmul for float32 here: ", error.what(), "; use --isa avx2"));
}

dnnl::matmul::primitive_desc OneDnnGemm::Describe(const memory::desc& weights, Kind kind,
                                                  int rows) const {
  const memory::dim in = weights.dims()[0];
  const memory::dim out = weights.dims()[1];
  constexpr auto kType = memory::data_type::f32;
  const memory::desc source({rows, in}, kType, memory::format_tag::ab);
  const memory::desc destination({rows, out}, kType, memory::format_tag::ab);
  base::MutexLock lock(&OneDnnCreation());
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (kind == Kind::kAdd) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  if (kind == Kind::kStore) {
    const memory::desc bias({1, out}, kType, memory::format_tag::ab);
    return {{source, weights, bias, destination}, attributes, engine_};
  }
  return {{source, weights, destination}, attributes, engine_};
}

// The layout that oneDNN chooses for enough rows to fill its widest tiles.
memory::desc OneDnnGemm::LayoutOf(int64_t out, int64_t in) const {
  const memory::desc any({in, out}, memory::data_type::f32, memory::format_tag::any);
  return Describe(any, Kind::kStore, 64).weights_desc();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> OneDnnGemm::Pack(const HostTensor& weight,
                                                               const Shard& part) try {
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  return OneDnnWeight::Pack(weight, part, LayoutOf(out, in), engine_, stream_);
} catch (const dnnl::error& error) {
  return absl::InternalError(absl::StrCat("oneDNN cannot pack a weight: ", error.what()));
}

OneDnnGemm::Primitive& OneDnnGemm::Find(const PackedWeight& weight, Kind kind, int rows) {
  std::unique_ptr<Primitive>& primitive = primitives_[{weight.out(), weight.in(), kind, rows}];
  if (primitive != nullptr) return *primitive;
  const auto descriptor = Describe(static_cast<const OneDnnWeight&>(weight).layout(), kind, rows);
  base::MutexLock lock(&OneDnnCreation());
  primitive = std::make_unique<Primitive>();
  primitive->implementation = descriptor.impl_info_str();
  primitive->matmul = dnnl::matmul(descriptor);
  primitive->source = memory(descriptor.src_desc(), engine_, nullptr);
  primitive->weights = memory(descriptor.weights_desc(), engine_, nullptr);
  primitive->destination = memory(descriptor.dst_desc(), engine_, nullptr);
  if (kind == Kind::kStore) primitive->bias = memory(descriptor.bias_desc(), engine_, nullptr);
  const memory::desc scratchpad = descriptor.scratchpad_desc();
  primitive->scratchpad = memory(scratchpad, engine_, nullptr);
  scratchpad_.resize(std::max(scratchpad_.size(), scratchpad.get_size() + 64));
  return *primitive;
}

absl::Status OneDnnGemm::Prepare(std::span<const MatMulUse> uses) try {
  for (const MatMulUse& use : uses) {
    const PackedWeight& weight = *use.weight;
    zeros_.resize(std::max<size_t>(zeros_.size(), weight.out()), 0.0f);
    const Kind kind = use.accumulate ? Kind::kAdd : Kind::kStore;
    for (const int rows : rungs_) {
      if (rows > use.max_rows) break;
      const std::string& chosen = Find(weight, kind, rows).implementation;
      if (chosen != implementation_) {
        return absl::FailedPreconditionError(absl::StrCat(
            "oneDNN chose '", chosen, "' for ", rows, " rows of a ", weight.out(), " x ",
            weight.in(), " weight, expected '", implementation_, "'; use --isa avx2"));
      }
    }
  }
  return absl::OkStatus();
} catch (const dnnl::error& error) {
  return absl::InternalError(absl::StrCat("oneDNN cannot prepare a matmul: ", error.what()));
}

int OneDnnGemm::LargestRung(int64_t rows) const {
  const auto above = std::upper_bound(rungs_.begin(), rungs_.end(), rows);
  return *(above - 1);
}

void OneDnnGemm::RunRung(const PackedWeight& weight, Matrix in, Matrix out, const float* bias,
                         Kind kind) {
  const auto& packed = static_cast<const OneDnnWeight&>(weight);
  Primitive& primitive = Find(packed, kind, static_cast<int>(in.rows));
  primitive.source.set_data_handle(in.data);
  primitive.weights.set_data_handle(packed.data());
  primitive.destination.set_data_handle(out.data);
  const auto address = reinterpret_cast<uintptr_t>(scratchpad_.data());
  primitive.scratchpad.set_data_handle(reinterpret_cast<void*>((address + 63) / 64 * 64));
  std::array<dnnl_exec_arg_t, 5> arguments = {{
      {DNNL_ARG_SRC, primitive.source.get()},
      {DNNL_ARG_WEIGHTS, primitive.weights.get()},
      {DNNL_ARG_DST, primitive.destination.get()},
      {DNNL_ARG_SCRATCHPAD, primitive.scratchpad.get()},
      {DNNL_ARG_BIAS, nullptr},
  }};
  int count = 4;
  if (kind == Kind::kStore) {
    primitive.bias.set_data_handle(const_cast<float*>(bias));
    arguments[count++].memory = primitive.bias.get();
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.matmul.get(), stream_.get(), count, arguments.data());
  BATON_CHECK(status == dnnl_success) << "oneDNN matmul failed with status " << status;
}

void OneDnnGemm::Run(const PackedWeight& weight, Matrix in, Matrix out,
                     const MatMulEpilogue& epilogue) try {
  zeros_.resize(std::max<size_t>(zeros_.size(), weight.out()), 0.0f);
  const Kind kind = epilogue.accumulate ? Kind::kAdd : Kind::kStore;
  const float* bias = zeros_.data();
  if (epilogue.bias != nullptr) {
    bias = static_cast<const float*>(epilogue.bias->data());
    if (kind == Kind::kAdd) {
      // The bias is added to what is there first, and the product to both.
      for (int64_t row = 0; row < out.rows; ++row) {
        float* values = static_cast<float*>(out.row(row));
        for (int64_t i = 0; i < out.cols; ++i) values[i] += bias[i];
      }
    }
  }
  for (int64_t row = 0; row < in.rows;) {
    const int rung = LargestRung(in.rows - row);
    Matrix part_in = Matrix::Dense(in.row(row), in.dtype, rung, in.cols);
    Matrix part_out = Matrix::Dense(out.row(row), out.dtype, rung, out.cols);
    RunRung(weight, part_in, part_out, bias, kind);
    row += rung;
  }
} catch (const dnnl::error& error) {
  BATON_CHECK(false) << "oneDNN matmul of " << in.rows << " rows: " << error.what();
}

void OneDnnGemm::UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) {
  static_cast<const OneDnnWeight&>(weight).UnpackRow(row, static_cast<float*>(out.row(out_row)));
}

std::string OneDnnGemm::layout() const {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch, " ",
                      version->hash, " ", implementation_);
}

PackedImage OneDnnGemm::ImageOf(const PackedWeight& weight) const {
  return static_cast<const OneDnnWeight&>(weight).Image();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> OneDnnGemm::FromImage(const PackedImage& image,
                                                                    int64_t out, int64_t in) const
    try {
  return OneDnnWeight::FromImage(image, LayoutOf(out, in));
} catch (const dnnl::error& error) {
  return absl::InternalError(absl::StrCat("oneDNN cannot lay out a weight: ", error.what()));
}

}  // namespace baton::kernels::cpu
