#include "tools/generate/eos_curve.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(EosCurve, IsEmptyWithoutSteps) {
  EXPECT_EQ(EosCurve({}, 60), "");
  EXPECT_EQ(EosCurve({1}, 0), "");
}

TEST(EosCurve, RisesWithTheLogarithm) {
  EXPECT_EQ(EosCurve({0, 1e-6, 1e-3, 1}, 60), "▁▁▅█");
  EXPECT_EQ(EosCurve({2, -1}, 60), "█▁") << "rounding may leave [0, 1]";
}

TEST(EosCurve, ABarIsTheHighestOfItsSteps) {
  EXPECT_EQ(EosCurve({0, 1, 0, 0}, 2), "█▁");
  EXPECT_EQ(EosCurve(std::vector<double>(1000, 1.0), 3), "███");
}

}  // namespace
}  // namespace baton
