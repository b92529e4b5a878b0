#include "common/config/unknown_variables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> WarningsOf(const std::map<std::string, std::string>& environment) {
  return UnknownVariableWarnings(
      environment, {"BATON_HOST", "BATON_LOG_LEVEL", "BATON_MAX_NUM_SEQS", "BATON_PORT"});
}

TEST(UnknownVariableWarnings, ANameNearAKnownOneIsNamedWithIt) {
  EXPECT_THAT(WarningsOf({{"BATON_LOG_LEVL", "debug"}, {"BATON_MAX_NUM_SEQ", "3"}}),
              ElementsAre("BATON_LOG_LEVL is ignored: no setting has this name. "
                          "Try: BATON_LOG_LEVEL",
                          "BATON_MAX_NUM_SEQ is ignored: no setting has this name. "
                          "Try: BATON_MAX_NUM_SEQS"));
}

TEST(UnknownVariableWarnings, KnownFarForeignAndEmptyOnesAreNotMentioned) {
  EXPECT_THAT(WarningsOf({{"BATON_LOG_LEVEL", "debug"},
                          {"BATON_SIM_SEED", "7"},
                          {"BATON_POST", ""},
                          {"LOG_LEVL", "debug"}}),
              IsEmpty());
}

TEST(UnknownVariableWarnings, ShortNamesMustBeNearer) {
  EXPECT_THAT(WarningsOf({{"BATON_PAST", "1"}, {"BATON_SEED", "1"}, {"BATON_N", "1"}}), IsEmpty());
  EXPECT_EQ(WarningsOf({{"BATON_POR", "1"}}).size(), 1u);
}

TEST(UnknownVariableWarnings, NothingIsSaidOfWhatKubernetesSets) {
  const std::vector<std::string> known = {"BATON_SERVICE_HOSTS", "BATON_SERVICE_PORTS",
                                          "BATON_A_PORT_8_TCP_ADDRS", "BATON_HTTP_PORTS",
                                          "BATON_SERVICE_PORT_GRPCS"};
  EXPECT_THAT(UnknownVariableWarnings({{"BATON_SERVICE_HOST", "10.0.0.1"},
                                       {"BATON_SERVICE_PORT", "50051"},
                                       {"BATON_SERVICE_PORT_GRPC", "50051"},
                                       {"BATON_HTTP_PORT", "tcp://10.0.0.1:50051"},
                                       {"BATON_A_PORT_8_TCP_ADDR", "10.0.0.1"}},
                                      known),
              IsEmpty());
  EXPECT_EQ(UnknownVariableWarnings({{"BATON_HTTP_PORT", "5"}}, known).size(), 1u);
}

}  // namespace
}  // namespace baton
