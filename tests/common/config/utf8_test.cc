#include "common/config/utf8.h"

#include <gtest/gtest.h>

#include <string_view>

namespace baton {
namespace {

TEST(Utf8Test, CharactersOfEveryLengthAreTaken) {
  for (const std::string_view text :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "aé€😀b"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(std::string_view("\0", 1)));
}

TEST(Utf8Test, WhatIsNoneIsNot) {
  for (const std::string_view text : {"\x80",              // begins in the middle
                                      "a\xff",             // begins nothing
                                      "\xc2",              // ends too early
                                      "\xe2\x82",          // likewise
                                      "\xf0\x9f\x98",      // likewise
                                      "\xc2z",             // goes on wrongly
                                      "\xc1\xbf",          // longer than it needs to be
                                      "\xe0\x9f\xbf",      // likewise
                                      "\xf0\x8f\xbf\xbf",  // likewise
                                      "\xed\xa0\x80",      // half of a pair
                                      "\xed\xbf\xbf",      // likewise
                                      "\xf4\x90\x80\x80",  // above U+10FFFF
                                      "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text.size();
  }
}

}  // namespace
}  // namespace baton
