#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/eos_signal.h"
#include "kernels/cpu/isa.h"
#include "kernels/sample_processors.h"
#include "kernels/sampling.h"

namespace baton::kernels::cpu {

// What one reading of a row of logits, raw or processed, finds out.
struct LogitRange {
  float highest = 0;
  float lowest = 0;    // finite, or `highest` when nothing below is finite
  int64_t finite = 0;  // how many are
  bool valid = true;   // no NaN, no +infinity, something above -infinity
};

// Sums over a row of logits whose highest is `highest`.
struct ExpSums {
  double total = 0;     // of exp(x - highest)
  double weighted = 0;  // of exp(x - highest) (x - highest)
  int64_t before = 0;   // how many ids rank before the marked one
};

// Where top-k or top-p cuts a row: the last id that is kept, in the order (logit descending, id
// ascending).
struct Cut {
  float logit = 0;
  int32_t id = 0;
  bool Keeps(float x, int32_t other) const { return x > logit || (x == logit && other <= id); }
};

// How much of a row has a logit of at least each of a few values, and below one that is higher.
inline constexpr int kTails = 4;
struct Tails {
  int64_t count[kTails] = {};  // ids
  uint64_t mass[kTails] = {};  // their nucleus masses, see kernels/sample_weights.h
};

// How many weights share one of the sums from which a draw begins.
inline constexpr size_t kStretch = 512;

// The loops over a row that are compiled for each instruction set.
struct SampleOps {
  LogitRange (*range)(std::span<const float> logits) = nullptr;
  // `marked` is an id whose rank is wanted, or -1.
  ExpSums (*exp_sums)(std::span<const float> logits, float highest, int32_t marked) = nullptr;
  // The first id whose logit is `value`.
  int32_t (*find)(std::span<const float> logits, float value) = nullptr;
  // weights = ExpF32((x - highest) / temperature).
  void (*weights)(std::span<const float> logits, float highest, float temperature,
                  std::span<float> out) = nullptr;
  // Sets the weights of the ids that `cut` drops, if it is not null, and those below min_p to 0.
  void (*drop)(std::span<const float> logits, const Cut* cut, float min_p,
               std::span<float> weights) = nullptr;
  // Of the ids whose logits are in [from[0], to), [from[1], to), …, where from[0] is the lowest;
  // the masses only where there are `weights`.
  Tails (*tails)(std::span<const float> logits, std::span<const float> weights,
                 const float (&from)[kTails], float to) = nullptr;
  // The ids whose logits are in [from, to), in ascending order. `ids` has room for `kGatherRoom`
  // more.
  size_t (*gather)(std::span<const float> logits, float from, float to,
                   std::span<int32_t> ids) = nullptr;
  // The sums of each kStretch weights, up to the rounding of another order of sums.
  void (*stretches)(std::span<const float> weights, std::span<double> sums) = nullptr;
};
// A vector more than is found may be written.
inline constexpr size_t kGatherRoom = 16;
SampleOps ChooseSampleOps(Isa isa);

// Samples rows as Backend::Sample, with the arithmetic of kernels/sample_weights.h, so that its
// tokens are those of the reference. It owns scratch, so each thread has one.
class RowSampler {
 public:
  explicit RowSampler(const SampleOps& ops) : ops_(ops) {}

  void Run(const SampleRow& row, std::span<const float> raw, SampledToken& result);

 private:
  struct Draw {
    int32_t token = 0;
    double stop_mass = 0;
  };
  struct Candidate {
    float logit;
    int32_t id;
  };
  // How much a cut keeps: `count` ids, or, where that is 0, the share `top_p` of the nucleus mass.
  struct Wanted {
    int64_t count = 0;
    float top_p = 1;
  };

  Draw DrawOne(const SampleRow& row, std::span<const float> logits, const LogitRange& range,
               uint32_t draw);
  int32_t TossCoin(const SampleRow& row, uint32_t draw, double* total);
  int32_t TossCoinExactly(double coin, double* total) const;
  bool FindTopCuts(const SampleRow& row, std::span<const float> logits, const LogitRange& range,
                   Cut* cut);
  Cut FindCut(std::span<const float> logits, const LogitRange& range, const Wanted& wanted);
  void Gather(std::span<const float> logits, float from, float to, int64_t count);
  void TopLogprobs(const SampleRow& row, std::span<const float> raw, const LogitRange& range,
                   double log_total, SampledToken& result);

  const SampleOps& ops_;
  SampleProcessors processors_;
  std::vector<float> weights_;
  std::vector<double> stretches_;  // the sums of each kStretch weights
  std::vector<int32_t> ids_;
  std::vector<Candidate> candidates_;
};

}  // namespace baton::kernels::cpu
