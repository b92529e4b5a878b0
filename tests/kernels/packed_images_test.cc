// A weight made of another weight's image computes the same bits where it lies, and an image that
// is none is refused.
#include "kernels/packed_images.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/quantized_tensor.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels {
namespace {

using testing::HasSubstr;

// The parts of an image in memory of their own, as a file would hold them.
class Copied final {
 public:
  explicit Copied(const PackedImage& image) : form_(image.form) {
    for (const auto part : image.parts) {
      // Two of the alignment: one for the begin, one behind the end.
      parts_.emplace_back(part.size() + kImageAlignment + kImageMargin, std::byte{0x5a});
      sizes_.push_back(part.size());
      std::memcpy(Begin(parts_.size() - 1), part.data(), part.size());
    }
  }
  PackedImage image() {
    PackedImage image = {.form = form_};
    for (size_t i = 0; i < parts_.size(); ++i) image.parts.emplace_back(Begin(i), sizes_[i]);
    return image;
  }

 private:
  std::byte* Begin(size_t part) {
    const auto address = reinterpret_cast<uintptr_t>(parts_[part].data());
    const uintptr_t aligned = (address + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
    return parts_[part].data() + (aligned - address);
  }
  std::string form_;
  std::vector<std::vector<std::byte>> parts_;
  std::vector<size_t> sizes_;
};

class PackedImagesTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    backend_ = Make(GetParam());
    ASSERT_NE(backend_, nullptr);
    images_ = backend_->packed_images();
    ASSERT_NE(images_, nullptr);
  }

  std::string Products(const PackedWeight& weight, int64_t rows) {
    EXPECT_TRUE(
        backend_
            ->Prepare({.products = std::vector<MatMulUse>{{.weight = &weight, .max_rows = 64}},
                       .max_tokens = 64,
                       .max_samples = 64})
            .ok());
    TestMatrix in = TestMatrix::Random(GetParam().dtype, rows, weight.in(), 7);
    TestMatrix out(DType::kF32, rows, weight.out());
    backend_->MatMul(weight, in.view(), out.view(), {});
    std::string bits;
    for (int64_t row = 0; row < rows; ++row) bits += out.bits(row);
    return bits;
  }

  // The weight of a copy of this one's image computes what this one does.
  void ExpectRoundTrip(const PackedWeight& weight) {
    Copied copy(images_->ImageOf(weight));
    const auto again = images_->FromImage(copy.image(), weight.out(), weight.in());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->bytes(), weight.bytes());
    EXPECT_EQ((*again)->quantized(), weight.quantized());
    EXPECT_EQ(images_->ImageOf(**again).form, images_->ImageOf(weight).form);
    EXPECT_EQ(images_->ImageOf(**again).parts[0].data(), copy.image().parts[0].data())
        << "it was copied";
    for (const int64_t rows : {1, 5, 40}) {
      EXPECT_EQ(Products(**again, rows), Products(weight, rows)) << rows << " rows";
    }
  }

  absl::Status Refusal(const PackedImage& image, int64_t out, int64_t in) {
    return images_->FromImage(image, out, in).status();
  }

  std::unique_ptr<Backend> backend_;
  const PackedImages* images_ = nullptr;
};

TEST_P(PackedImagesTest, ADenseWeightIsItsImage) {
  for (const auto& [out, in] : {std::pair{96, 64}, {70, 40}, {17, 24}}) {
    SCOPED_TRACE(std::to_string(out) + " x " + std::to_string(in));
    const TestMatrix values = TestMatrix::Random(GetParam().dtype, out, in, 3);
    const auto weight = backend_->Pack(values.tensor(), {});
    ASSERT_TRUE(weight.ok()) << weight.status();
    ExpectRoundTrip(**weight);
  }
}

TEST_P(PackedImagesTest, AWeightOfIntegersIsItsImage) {
  const std::vector<QuantizedShape> shapes = {
      {.bits = 8, .rows = 40, .cols = 96},
      {.bits = 4, .rows = 33, .cols = 128, .zero_points = true, .scale_dtype = DType::kF16},
      {.bits = 4, .rows = 48, .cols = 64, .scale_dtype = DType::kF32, .minimums = true},
      {.bits = 4, .rows = 33, .cols = 256, .minimums = true, .unit_groups = 8},
      {.bits = 4, .rows = 16, .cols = 96, .shuffled = true, .zero_point = -3}};
  for (const QuantizedShape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.bits) + " bits, " + std::to_string(shape.rows) + " rows");
    const RandomQuantized values(shape);
    const auto weight = backend_->PackQuantized(values.tensor(), {});
    ASSERT_TRUE(weight.ok()) << weight.status();
    ExpectRoundTrip(**weight);
  }
}

TEST_P(PackedImagesTest, AnImageOfAnotherSizeOrLayoutIsRefused) {
  const TestMatrix values = TestMatrix::Random(GetParam().dtype, 64, 32, 3);
  const auto weight = backend_->Pack(values.tensor(), {});
  ASSERT_TRUE(weight.ok()) << weight.status();
  const PackedImage image = images_->ImageOf(**weight);
  EXPECT_TRUE(Refusal(image, 64, 32).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(image, 32, 64)));
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(image, 65, 32)));
  PackedImage other = image;
  other.form += " ";
  EXPECT_THAT(std::string(Refusal(other, 64, 32).message()), HasSubstr("expected '" + image.form));
  other = image;
  other.parts[0] = other.parts[0].first(other.parts[0].size() - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(other, 64, 32)));
  other = image;
  other.parts.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(other, 64, 32)));
  other.parts = {image.parts[0], image.parts[0]};
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(other, 64, 32)));
}

TEST_P(PackedImagesTest, AnImageOfIntegersThatIsNoneIsRefused) {
  const RandomQuantized values({.bits = 4, .rows = 32, .cols = 64, .shuffled = true});
  const auto weight = backend_->PackQuantized(values.tensor(), {});
  ASSERT_TRUE(weight.ok()) << weight.status();
  const PackedImage image = images_->ImageOf(**weight);
  ASSERT_EQ(image.form, "integers version 3 4 32 bfloat16 0 8 0 8");
  for (const char* form :
       {"integers version 3", "integers version 3 4 32 bfloat16 0 8 0",
        "integers version 2 4 32 bfloat16 0 8 0 8", "integers version 3 5 32 bfloat16 0 8 0 8",
        "integers version 3 4 0 bfloat16 0 8 0 8", "integers version 3 4 -32 bfloat16 0 8 0 8",
        "integers version 3 4 9223372036854775807 bfloat16 0 8 0 8",
        "integers version 3 4 48 bfloat16 0 8 0 8", "integers version 3 4 32 fp8 0 8 0 8",
        "integers version 3 4 32 bfloat16 0 70000 0 8", "integers version 3 4 32 int8 0 8 0 1",
        "integers version 3 4 32 bfloat16 2 8 0 8", "integers version 3 4 32 bfloat16 0 8x 0 8",
        "integers version 3 8 32 bfloat16 0 8 0 8", "integers version 3 4 64 bfloat16 0 8 0 8",
        "integers version 3 4 32 float32 0 8 0 8", "integers version 3 4 32 bfloat16 0 8 0 4",
        "integers version 3 4 32 int8 0 8 0 0", "integers version 3 4 32 int8 0 8 0 -8"}) {
    PackedImage other = image;
    other.form = form;
    EXPECT_TRUE(absl::IsInvalidArgument(Refusal(other, 32, 64))) << form;
  }
  std::vector<int32_t> order(64, 0);
  PackedImage other = image;
  other.parts[1] = std::as_bytes(std::span(order));
  EXPECT_TRUE(Refusal(other, 32, 64).ok());
  order[63] = 64;
  EXPECT_THAT(std::string(Refusal(other, 32, 64).message()), HasSubstr("beyond the 64"));
  order[63] = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(Refusal(other, 32, 64)));
}

TEST_P(PackedImagesTest, TheLayoutNamesInstructionSetAndKernel) {
  const std::string layout = images_->layout();
  EXPECT_THAT(layout, HasSubstr(backend_->info().isa));
  EXPECT_THAT(layout, HasSubstr("integers version 3"));
  for (const Way& other : CpuWays()) {
    if (other.isa == GetParam().isa) continue;
    EXPECT_NE(Make(other)->packed_images()->layout(), layout) << other.name();
  }
  // The number of threads decides no byte.
  Way many = GetParam();
  many.threads = 64;
  const auto wide = Make(many);
  EXPECT_EQ(wide->packed_images()->layout(), layout);
  const TestMatrix values = TestMatrix::Random(GetParam().dtype, 64, 128, 3);
  const auto weight = wide->Pack(values.tensor(), {});
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_TRUE(Refusal(wide->packed_images()->ImageOf(**weight), 64, 128).ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, PackedImagesTest, testing::ValuesIn(CpuWays()), WayName);

TEST(PackedImagesOfOthersTest, TheReferenceHasNone) {
  EXPECT_EQ(Make({.device = Device::kReference, .isa = "scalar"})->packed_images(), nullptr);
}

}  // namespace
}  // namespace baton::kernels
