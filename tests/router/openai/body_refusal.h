#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/status.h"
#include "router/openai/openai_request.h"

namespace baton {

// A list in JSON of so many times `entry`.
inline std::string ListOf(const std::string& entry, int count) {
  std::string text;
  text.reserve(static_cast<size_t>(count) * (entry.size() + 1) + 16);
  text += "[" + entry;
  for (int i = 1; i < count; ++i) text.append(",").append(entry);
  return text += "]";
}

struct BodyRefusal {
  std::string body;
  std::string field;
  std::string says;  // a part of the message
};

inline void ExpectBodyRefused(OpenAiApi api, const BodyRefusal& refusal) {
  SCOPED_TRACE(refusal.body.substr(0, 100));
  const auto request = ReadOpenAiRequest(api, refusal.body);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(DetailOf(request.status()).field, refusal.field);
  EXPECT_THAT(std::string(request.status().message()), ::testing::HasSubstr(refusal.says));
}

}  // namespace baton
