#include "tests/common/model/run_sequences.h"

namespace baton::test {

TestSequence SequenceOf(int32_t index) {
  TestSequence sequence;
  for (int32_t i = 0; i < 1 + index * 7; ++i) {
    sequence.prompt.push_back((index * 37 + i * i * 11) % 256);
  }
  return sequence;
}

std::vector<std::vector<TokenId>> RunTogether(LoadedModel& model, int32_t chunk) {
  std::vector<TestSequence> sequences;
  std::vector<TestSequence*> pointers;
  for (int32_t i = 0; i < kSequences; ++i) sequences.push_back(SequenceOf(i));
  for (TestSequence& sequence : sequences) pointers.push_back(&sequence);
  RunnerDriver(model).Generate(pointers, kAnswerTokens, chunk);
  std::vector<std::vector<TokenId>> outputs;
  for (const TestSequence& sequence : sequences) outputs.push_back(sequence.output);
  return outputs;
}

std::vector<std::vector<TokenId>> RunAlone(LoadedModel& model) {
  std::vector<std::vector<TokenId>> outputs;
  for (int32_t i = 0; i < kSequences; ++i) {
    TestSequence sequence = SequenceOf(i);
    RunnerDriver(model).Generate({&sequence}, kAnswerTokens, 512);
    outputs.push_back(sequence.output);
  }
  return outputs;
}

}  // namespace baton::test
