#include "common/rpc/stream_writer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

struct Text {
  std::string text;
  size_t ByteSizeLong() const { return text.size(); }
};

// Small letters travel together.
bool MergeSmall(Text* last, Text* next) {
  const auto small = [](const Text& text) { return text.text[0] >= 'a'; };
  if (!small(*last) || !small(*next)) return false;
  last->text += next->text;
  return true;
}

// A writer of at most 40 pending bytes whose reader takes a message when it is told to.
class StreamWriterTest : public ::testing::Test {
 protected:
  // The reader takes all that there is.
  std::vector<std::string> TakeAll() {
    std::vector<std::string> taken;
    while (!out_.empty()) {
      taken.push_back(std::exchange(out_, ""));
      writer_.OnWriteDone(true);
    }
    return taken;
  }
  bool Send(const std::string& text) { return writer_.Send({text}); }

  std::string out_;  // the write that is outstanding
  size_t dropped_ = 0;
  StreamWriter<Text> writer_{{.write = [this](const Text* message) { out_ = message->text; },
                              .finish = [](const grpc::Status&) {},
                              .cancel = [] {},
                              .dropped = [this](size_t count) { dropped_ += count; }},
                             MergeSmall,
                             40};
};

TEST_F(StreamWriterTest, AHintTravelsWithAReaderThatKeepsUp) {
  EXPECT_TRUE(Send("a"));
  writer_.SendHint({"HINT"});
  EXPECT_TRUE(Send("b"));
  EXPECT_TRUE(Send("c"));
  EXPECT_THAT(TakeAll(), ElementsAre("a", "HINT", "bc"));
  EXPECT_EQ(dropped_, 0u);
}

TEST_F(StreamWriterTest, AHintIsDroppedWhileMoreThanAQuarterIsPending) {
  EXPECT_TRUE(Send("a"));  // outstanding, and so not pending
  EXPECT_TRUE(Send("bbbbbb"));
  writer_.SendHint({"HINT"});
  writer_.SendHint({"NO"});
  EXPECT_TRUE(Send("c"));
  EXPECT_THAT(TakeAll(), ElementsAre("a", "bbbbbb", "HINT", "c"));
  writer_.SendHint({"AGAIN"});
  EXPECT_THAT(TakeAll(), ElementsAre("AGAIN"));
  EXPECT_EQ(dropped_, 1u);
}

TEST_F(StreamWriterTest, HintsTakeNoRoomFromMessages) {
  EXPECT_TRUE(Send("a"));
  writer_.SendHint({"TENLETTERS"});
  EXPECT_TRUE(Send(std::string(30, 'b')));
  EXPECT_TRUE(Send(std::string(10, 'c')));
  EXPECT_EQ(dropped_, 1u);
  EXPECT_FALSE(Send("d"));
  EXPECT_THAT(TakeAll(), ElementsAre("a", std::string(30, 'b') + std::string(10, 'c')));
}

TEST_F(StreamWriterTest, AMessageLargerThanTheBoundGoesWhereOnlyHintsArePending) {
  EXPECT_TRUE(Send("a"));
  writer_.SendHint({"HINT"});
  EXPECT_TRUE(Send(std::string(50, 'b')));
  EXPECT_FALSE(Send("c"));
  EXPECT_THAT(TakeAll(), ElementsAre("a", std::string(50, 'b')));
}

TEST_F(StreamWriterTest, AHintBehindTheEndIsNothing) {
  writer_.Finish(grpc::Status::OK);
  writer_.SendHint({"HINT"});
  EXPECT_EQ(out_, "");
  EXPECT_EQ(dropped_, 0u);
}

}  // namespace
}  // namespace baton
