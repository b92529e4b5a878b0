#include "common/base/failpoint.h"

#include <gtest/gtest.h>

#include <chrono>

#include "common/base/ticket_table.h"

namespace baton {
namespace {

class FailpointTest : public testing::Test {
 protected:
  ~FailpointTest() override { base::DisarmFailpoints(); }
  static std::chrono::nanoseconds TimeOf(const char* state, int64_t units = 1) {
    const auto begin = std::chrono::steady_clock::now();
    base::Failpoint(state, units);
    return std::chrono::steady_clock::now() - begin;
  }
};

TEST_F(FailpointTest, RefusesMalformedSpecs) {
  for (const char* spec : {"reserved", "reserved:", ":stop", "reserved:jump",
                           "reserved:delay_ms=", "reserved:delay_ms=-1",
                           "reserved:delay_us_each=", "reserved:delay_us_each=x", "reserved@0:stop",
                           "reserved@x:stop", "reserved:stop,,", "a:stop,b"}) {
    EXPECT_FALSE(base::ArmFailpoints(spec).ok()) << spec;
  }
}

TEST_F(FailpointTest, ActsInItsStateOnly) {
  ASSERT_TRUE(base::ArmFailpoints("reserved:delay_ms=300,other:delay_ms=1").ok());
  EXPECT_GE(TimeOf("reserved"), std::chrono::milliseconds(300));
  EXPECT_LT(TimeOf("decoding"), std::chrono::milliseconds(300));
  base::DisarmFailpoints();
  EXPECT_LT(TimeOf("reserved"), std::chrono::milliseconds(300));
}

TEST_F(FailpointTest, DelaysOnceAndForEachUnit) {
  ASSERT_TRUE(base::ArmFailpoints("stepping:delay_ms=100,stepping:delay_us_each=1000").ok());
  EXPECT_GE(TimeOf("stepping", 200), std::chrono::milliseconds(300));
  EXPECT_LT(TimeOf("stepping"), std::chrono::milliseconds(300));
}

TEST_F(FailpointTest, CountsHits) {
  ASSERT_TRUE(base::ArmFailpoints("reserved@2:delay_ms=300").ok());
  EXPECT_LT(TimeOf("reserved"), std::chrono::milliseconds(300));
  EXPECT_GE(TimeOf("reserved"), std::chrono::milliseconds(300));
  EXPECT_LT(TimeOf("reserved"), std::chrono::milliseconds(300));
}

TEST_F(FailpointTest, ExitsWithItsOwnCode) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        (void)base::ArmFailpoints("reserved:exit");
        base::Failpoint("reserved");
      },
      testing::ExitedWithCode(86), "");
}

TEST(TicketTest, DrawsDiffer) {
  const Ticket a = Ticket::Draw(1), b = Ticket::Draw(1);
  EXPECT_TRUE(SameTicket(a, a));
  EXPECT_FALSE(SameTicket(a, b));
}

TEST(TicketTest, EveryBitCounts) {
  const Ticket ticket = Ticket::Draw(1);
  for (size_t byte = 0; byte < Ticket::kSecretBytes; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Ticket other = ticket;
      other.secret[byte] = static_cast<uint8_t>(other.secret[byte] ^ (1 << bit));
      EXPECT_FALSE(SameTicket(ticket, other));
    }
  }
  Ticket other = ticket;
  other.incarnation = 2;
  EXPECT_FALSE(SameTicket(ticket, other));
}

TEST(TicketTest, WireFormHasExactlyItsLength) {
  const Ticket ticket = Ticket::Draw(9);
  const auto back = Ticket::FromWire(9, ticket.SecretBytes());
  ASSERT_TRUE(back);
  EXPECT_TRUE(SameTicket(*back, ticket));
  EXPECT_FALSE(Ticket::FromWire(9, ticket.SecretBytes() + "x"));
  EXPECT_FALSE(Ticket::FromWire(9, ""));
}

TEST(TicketTableTest, ATicketOpensItsEntryUntilItIsRemoved) {
  TicketTable<int> table;
  const Ticket a = Ticket::Draw(1), b = Ticket::Draw(1);
  table.Add(a, std::make_shared<int>(7));
  table.Add(b, std::make_shared<int>(8));
  EXPECT_EQ(*table.Find(a), 7);
  EXPECT_EQ(table.Find(Ticket::Draw(1)), nullptr);
  table.Remove(a);
  EXPECT_EQ(table.Find(a), nullptr);
  EXPECT_EQ(*table.Find(b), 8);
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace baton
