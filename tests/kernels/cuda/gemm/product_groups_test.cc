#include "kernels/cuda/gemm/product_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace baton::kernels::cuda {
namespace {

using testing::ElementsAre;

std::unique_ptr<DeviceWeight> Weight(int64_t out, int64_t in) {
  return std::make_unique<DeviceWeight>(out, in, nullptr);
}

// One layer as a rank of two has it, with as many columns of o as of down. Rank 0 adds its parts to
// the residual, and has the bias of o.
class Layer {
 public:
  explicit Layer(int rank) : rank_(rank) {}

  std::map<ProductKey, Product> Groups() const {
    const MatMulUse fused = {.out = DType::kBF16, .max_rows = 64};
    const MatMulUse summed = {
        .out = DType::kF32, .accumulate = rank_ == 0, .max_rows = 64, .part = true};
    std::vector<MatMulUse> uses = {fused, summed, fused, summed};
    uses[0].weight = qkv_.get();
    uses[1].weight = o_.get();
    uses[1].bias = rank_ == 0;
    uses[2].weight = gate_up_.get();
    uses[3].weight = down_.get();
    return GroupProducts(uses, DType::kBF16);
  }

  const DeviceWeight* o() const { return o_.get(); }
  const DeviceWeight* down() const { return down_.get(); }

 private:
  const int rank_;
  const std::unique_ptr<DeviceWeight> qkv_ = Weight(48, 32);
  const std::unique_ptr<DeviceWeight> o_ = Weight(32, 64);
  const std::unique_ptr<DeviceWeight> gate_up_ = Weight(128, 32);
  const std::unique_ptr<DeviceWeight> down_ = Weight(32, 64);
};

std::vector<ProductKey> ChosenTogether(const std::map<ProductKey, Product>& groups) {
  std::vector<ProductKey> keys;
  for (const auto& [key, product] : groups) {
    if (!key.part) keys.push_back(key);
  }
  return keys;
}

TEST(GroupProductsTest, RanksHaveTheSameGroupsToChooseTogether) {
  const std::map<ProductKey, Product> first = Layer(0).Groups();
  const std::map<ProductKey, Product> second = Layer(1).Groups();
  EXPECT_EQ(ChosenTogether(first), ChosenTogether(second));
  EXPECT_EQ(ChosenTogether(first).size(), 2U) << "qkv, gate and up";
  EXPECT_EQ(first.size(), 4U) << "o has a bias, down has none";
  EXPECT_EQ(second.size(), 3U) << "o and down are alike";
}

TEST(GroupProductsTest, WhatIsChosenTogetherComesFirst) {
  std::vector<bool> parts;
  for (const auto& [key, product] : Layer(0).Groups()) parts.push_back(key.part);
  EXPECT_THAT(parts, ElementsAre(false, false, true, true));
}

TEST(GroupProductsTest, AGroupHasTheWeightsOfItsUsesAndTheMostRows) {
  const Layer layer(1);
  const auto groups = layer.Groups();
  const auto summed = groups.find({.part = true, .shape = {.out = 32, .in = 64}});
  ASSERT_NE(summed, groups.end());
  EXPECT_THAT(summed->second.weights, ElementsAre(layer.o(), layer.down()));
  EXPECT_EQ(summed->second.max_rows, 64);
}

TEST(GroupProductsTest, APartIsApartFromAWholeOfItsShape) {
  const auto weight = Weight(32, 64);
  const std::vector<MatMulUse> uses = {{.weight = weight.get(), .part = true},
                                       {.weight = weight.get()}};
  EXPECT_EQ(GroupProducts(uses, DType::kBF16).size(), 2U);
}

}  // namespace
}  // namespace baton::kernels::cuda
