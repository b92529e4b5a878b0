#include "common/base/shown_text.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

TEST(ShownText, ShortPlainTextIsAsItWas) {
  EXPECT_EQ(ShownText(""), "");
  EXPECT_EQ(ShownText("2023-11-16 18:15:46"), "2023-11-16 18:15:46");
  EXPECT_EQ(ShownText("abc", 3), "abc");
}

TEST(ShownText, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_EQ(ShownText("\x1b[2J\r\n\x7f"), "\\x1b[2J\\r\\n\\x7f");
  EXPECT_EQ(ShownText("\xc2\x9b"), "\\xc2\\x9b") << "a control of ISO 8859";
  EXPECT_EQ(ShownText(std::string(1, '\0')), "\\x00");
}

TEST(ShownText, LongTextIsCut) {
  EXPECT_EQ(ShownText(std::string(61, 'x')), std::string(60, 'x') + "…");
}

TEST(ShownText, NoCharacterIsCutInTwo) {
  const std::string euros = "a€€";  // three bytes each
  EXPECT_EQ(ShownText(euros, 7), "a\\xe2\\x82\\xac\\xe2\\x82\\xac");
  for (const size_t bytes_max : {4, 5, 6})
    EXPECT_EQ(ShownText(euros, bytes_max), "a\\xe2\\x82\\xac…");
  for (const size_t bytes_max : {1, 2, 3}) EXPECT_EQ(ShownText(euros, bytes_max), "a…");
  EXPECT_EQ(ShownText(euros, 0), "…");
}

TEST(ShownText, BytesThatAreNoUtf8AreCutAnywhere) {
  EXPECT_EQ(ShownText(std::string(9, '\x80'), 6), "\\x80\\x80\\x80\\x80\\x80\\x80…");
  EXPECT_EQ(ShownText("\x80\x80", 1), "\\x80…");
}

TEST(ShownLine, EscapesControlCharactersAlone) {
  EXPECT_EQ(ShownLine("it's «full»"), "it's «full»");
  EXPECT_EQ(ShownLine("a\nb\x1b[31m\x7f\u009b2J\u00a0"), "a\\nb\\x1b[31m\\x7f\\xc2\\x9b2J\u00a0");
  EXPECT_EQ(ShownLine("\xc2"), "\xc2") << "no character";
  EXPECT_EQ(ShownLine(""), "");
}

}  // namespace
}  // namespace baton
