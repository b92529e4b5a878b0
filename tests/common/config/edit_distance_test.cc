#include "common/config/edit_distance.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("port", "port"), 0u);
  EXPECT_EQ(EditDistance("", "port"), 4u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("sitting", "kitten"), 3u);
}

TEST(EditDistance, TwoLettersInTheWrongOrderAreOneSlip) {
  EXPECT_EQ(EditDistance("prot", "port"), 1u);
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
  EXPECT_EQ(EditDistance("abc", "cba"), 2u);
}

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(NearestName("--prot", {"--probe", "--port"}), "--port");
  EXPECT_EQ(NearestName("--max-num-seq", {"--max-model-len", "--max-num-seqs"}), "--max-num-seqs");
}

TEST(NearestName, NamesNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestName("--zzzzzzzz", {"--port", "--host"}), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(NearestName, NamesNothingThatMeansAnotherThing) {
  EXPECT_EQ(NearestName("--num-prompts", {"--prompts"}), "");
  EXPECT_EQ(NearestName("--api-key", {"--tls-key"}), "");
}

}  // namespace
}  // namespace baton
