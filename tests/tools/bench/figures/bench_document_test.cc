#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tools/bench/figures/figures.h"
#include "tools/bench/figures/slo.h"

namespace baton::bench {
namespace {

std::string Document() {
  std::ifstream file(BATON_SOURCE_DIR "/docs/bench.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(BenchDocument, HoldsTheTableOfFiguresThatTheProgramPrints) {
  EXPECT_NE(Document().find(FiguresAsMarkdown()), std::string::npos)
      << "put this into docs/bench.md:\n"
      << FiguresAsMarkdown();
}

TEST(BenchDocument, NamesTheSpeedOfEveryReader) {
  for (const std::string reader : {"silent", "listening", "visual"}) {
    const auto speed = std::to_string(static_cast<int>(ReaderWordsPerMinute(reader)));
    EXPECT_NE(Document().find("| `" + reader + "` | " + speed + " |"), std::string::npos) << reader;
  }
}

}  // namespace
}  // namespace baton::bench
