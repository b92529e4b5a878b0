#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"

namespace baton::kernels::cpu {

// Matrix products in fp32 by oneDNN for AVX-512, over weights that are packed in advance. One
// packed layout serves every number of rows. oneDNN is slow where the number of rows is known only
// at run time, so a primitive is made for each exact number of a ladder, and other numbers are cut
// into rungs of it. That changes no bit, because a row's result does not depend on the other rows.
//
// Primitives are asked for that one layout by name. Left to choose, oneDNN prefers another one for
// few rows as soon as there are more threads than panels of the weight.
class OneDnnGemm final : public Gemm {
 public:
  // Fails when oneDNN would not choose its `brg` implementation, the only fast one.
  static absl::StatusOr<std::unique_ptr<Gemm>> Create();

  const std::string& implementation() const override { return implementation_; }
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& part) override;
  absl::Status Prepare(std::span<const MatMulUse> uses) override;
  void Run(const PackedWeight& weight, Matrix in, Matrix out,
           const MatMulEpilogue& epilogue) override;
  void UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) override;
  std::string layout() const override;
  PackedImage ImageOf(const PackedWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image, int64_t out,
                                                          int64_t in) const override;

 private:
  // What a primitive does with the product: kStore adds a bias (zeros where there is none) and
  // stores it, kAdd adds it to what is there.
  enum class Kind { kStore, kAdd };
  struct Primitive;
  using Key = std::tuple<int64_t, int64_t, Kind, int>;  // out, in, kind, rows

  OneDnnGemm();
  dnnl::matmul::primitive_desc Describe(const dnnl::memory::desc& weights, Kind kind,
                                        int rows) const;
  dnnl::memory::desc LayoutOf(int64_t out, int64_t in) const;
  Primitive& Find(const PackedWeight& weight, Kind kind, int rows);
  void RunRung(const PackedWeight& weight, Matrix in, Matrix out, const float* bias, Kind kind);
  int LargestRung(int64_t rows) const;

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::string implementation_;
  std::vector<int> rungs_;  // ascending, from 1
  std::map<Key, std::unique_ptr<Primitive>> primitives_;
  std::vector<float> zeros_;
  std::vector<std::byte> scratchpad_;
};

}  // namespace baton::kernels::cpu
