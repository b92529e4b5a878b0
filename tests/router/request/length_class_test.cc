#include "router/request/length_class.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(LengthClassTest, IsOfWhatIsKnownBeforeTheFirstToken) {
  RequestSpec spec;
  spec.tenant = "default";
  spec.stop.max_tokens = 200;
  EXPECT_EQ(LengthClassOf(spec), "text/256/default");
  spec.chat = true;
  spec.stop.max_tokens = 256;
  EXPECT_EQ(LengthClassOf(spec), "chat/256/default");
  spec.as_many_as_fit = true;
  EXPECT_EQ(LengthClassOf(spec), "chat/open/default");
  spec.as_many_as_fit = false;
  spec.stop.max_tokens = 2147483647;
  spec.tenant = std::string(65, 'x');
  EXPECT_EQ(LengthClassOf(spec), "chat/2147483648/others");
}

}  // namespace
}  // namespace baton
