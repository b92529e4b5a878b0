#pragma once

#include <cstdint>

// What travels between host and device when a step is sampled: plain data in C++17 without CUDA's
// types.
namespace baton::kernels::cuda {

// Entries [begin, begin + count) of SampleLaunch::lists.
struct ListRange {
  int32_t begin = 0;
  int32_t count = 0;
};

// How the token of one row is drawn: a SampleRow as the kernels read it. The ids in the lists are
// inside the vocabulary, and those of `eos` and `stop` are distinct.
struct SampleParams {
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  int32_t num_top_logprobs = 0;
  uint64_t seed = 0;
  uint32_t position = 0;
  int32_t active = 0;      // 0 for a row that is padding
  int32_t redraw_eos = 0;  // IGNORE_MASK
  int32_t slot = -1;       // whose last token this row sets, or -1
  int32_t counts = -1;     // entry of SampleLaunch::counts, or -1: no penalties
  int32_t adds_count = 1;  // whether the drawn id is added to that entry
  ListRange given;         // ids that count as sampled beside those of the entry
  ListRange eos;
  ListRange stop;
  // Pairs of an id and the bits of a float, in ascending order of ids. The float is a bias to be
  // added, or -infinity, which masks the id.
  ListRange patches;  // `count` pairs
  // Words of a bitmap: bit id % 32 of word id / 32 says whether the id may be drawn, and those
  // beyond may not. None: all may.
  ListRange allowed;
};

// What the first kernel finds out about one tile of a row, from the raw logits and from those after
// the processors.
struct TilePartial {
  double total;     // of exp(x - raw_highest), raw logits
  double weighted;  // of exp(x - raw_highest) (x - raw_highest)
  int64_t before;   // how many ids rank before the best EOS id
  float raw_highest;
  float processed_highest;
  int32_t raw_argmax;  // the lowest id of the highest logit
  int32_t processed_argmax;
  int32_t invalid;  // 1 where a NaN or +infinity is among the logits
};

// What was drawn for one row: a SampledToken as the kernels write it.
struct SampleResult {
  int32_t token;
  float logprob;
  float eos_logprob;
  float eos_prob_sampling;
  int32_t eos_rank;
  float entropy;
  float top1_prob;
  int32_t natural_end;
  int32_t valid;  // 0: the logits are no distribution
  int32_t num_top_logprobs;
};

struct SampleTopLogprob {
  int32_t token;
  float logprob;
};

constexpr int kSurveyThreads = 256;
constexpr int kTileIds = 2048;  // ids that one block of the first kernel looks at
constexpr int kDrawThreads = 1024;
constexpr int kMaxTiles = kDrawThreads;
constexpr int32_t kMaxVocab = kMaxTiles * kTileIds;

constexpr int32_t NumTiles(int32_t vocab) { return (vocab + kTileIds - 1) / kTileIds; }

// Everything one launch reads and writes, all in device memory.
struct SampleLaunch {
  const float* logits = nullptr;  // [rows, vocab], rows `stride` floats apart
  int64_t stride = 0;
  int32_t rows = 0;
  int32_t vocab = 0;
  const SampleParams* params = nullptr;  // [rows]
  const int32_t* lists = nullptr;
  uint32_t* counts = nullptr;       // [entries, vocab]; meaning: see Penalised in sample_math.h
  int32_t* last_tokens = nullptr;   // [slots]
  float* processed = nullptr;       // [rows, vocab] scratch
  TilePartial* partials = nullptr;  // [rows, NumTiles(vocab)] scratch
  SampleResult* results = nullptr;  // [rows]
  SampleTopLogprob* top_logprobs = nullptr;  // [rows, max_top_logprobs], highest first
  int32_t max_top_logprobs = 0;
};

// Asks for entry `entry` of the counts to be filled from a history or, with `append`, for these ids
// to be added to it. Where `pending_slot` is not -1, that slot's last token counts as one more
// sampled id.
struct CountsReset {
  int32_t entry = 0;
  int32_t append = 0;
  int32_t pending_slot = -1;
  ListRange prompt;
  ListRange output;
};

}  // namespace baton::kernels::cuda
