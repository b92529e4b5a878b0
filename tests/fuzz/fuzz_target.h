#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/check.h"

// FUZZ_TARGET(name) { ... } is given `input`, any bytes at all, and stops the process by
// BATON_CHECK when a parser breaks its word. In preset core-fuzz it is libFuzzer's entry; elsewhere
// a test that replays the files of tests/fuzz/corpus/name.
#ifdef BATON_LIBFUZZER
#define FUZZ_TARGET(name)                                                   \
  static void Fuzz_##name(std::string_view input);                          \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    Fuzz_##name({reinterpret_cast<const char*>(data), size});               \
    return 0;                                                               \
  }                                                                         \
  static void Fuzz_##name(std::string_view input)
#else
#include "tests/fuzz/replay.h"
#define FUZZ_TARGET(name)                                               \
  static void Fuzz_##name(std::string_view input);                      \
  TEST(FuzzCorpus, name) { ::baton::fuzz::Replay(#name, Fuzz_##name); } \
  static void Fuzz_##name(std::string_view input)
#endif

namespace baton::fuzz {

// Whether a parser accepted. When it did not, it has to say why.
inline bool Accepted(const absl::Status& status) {
  BATON_CHECK(status.ok() || !status.message().empty()) << status.ToString();
  return status.ok();
}

// Takes the first of the sections that lines "%%" divide `input` into.
inline std::string_view TakeSection(std::string_view* input) {
  constexpr std::string_view kDivider = "\n%%\n";
  const size_t end = input->find(kDivider);
  const std::string_view section = input->substr(0, end);
  input->remove_prefix(end == input->npos ? input->size() : end + kDivider.size());
  return section;
}

}  // namespace baton::fuzz
