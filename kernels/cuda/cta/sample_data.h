#pragma once

#include <cstdint>

// What travels between host and device for a step's sampling: plain data, C++17, no CUDA types.
namespace baton::kernels::cuda {

// A piece of SampleLaunch::lists.
struct ListRange {
  int32_t begin = 0;
  int32_t count = 0;
};

// One row's request. Ids of the lists are inside the vocabulary; those of `eos` and `stop` are
// distinct.
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
  int32_t active = 0;      // 0: a row that only fills the bucket
  int32_t redraw_eos = 0;  // IGNORE_MASK
  int32_t slot = -1;       // whose last token this row sets, or -1
  int32_t counts = -1;     // entry of SampleLaunch::counts, or -1: no penalties
  ListRange eos;
  ListRange stop;
  // Pairs (id, bits of a float), ids ascending; a bias is added, -infinity masks.
  ListRange patches;  // `count` pairs
};

// What K1 learns about one tile of a row. `processed` is of the logits after the processors.
struct TilePartial {
  double total;     // of exp(x - raw_highest), raw logits
  double weighted;  // of exp(x - raw_highest) (x - raw_highest)
  int64_t before;   // ids ranked before the best EOS id
  float raw_highest;
  float processed_highest;
  int32_t raw_argmax;  // the lowest id of the highest logit
  int32_t processed_argmax;
  int32_t invalid;  // a NaN or +infinity is in it
};

// One row's answer; as SampledToken.
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
constexpr int kTileIds = 2048;  // ids that one block of K1 looks at
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

// Fills entry `entry` of the counts from a history. With `pending_slot` >= 0 that slot's last token
// counts as one more sampled id.
struct CountsReset {
  int32_t entry = 0;
  int32_t pending_slot = -1;
  ListRange prompt;
  ListRange output;
};

}  // namespace baton::kernels::cuda
