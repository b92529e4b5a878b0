// Ranks whose sums are NCCL's, over a library with its symbols that sums host memory.
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/load_ranks.h"
#include "common/model/tensor_parallel_runner.h"
#include "gtest/gtest.h"
#include "kernels/cuda/group/nccl_group.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/fake_nccl/fake_nccl_access.h"
#include "tests/fakes/fake_nccl/fake_stream.h"

namespace baton::test {
namespace {

using kernels::Collective;

constexpr int32_t kTokens = 24;

// A rank of the host has no stream: it waits for each sum and each exchange.
class WaitingRank final : public Collective {
 public:
  struct Counts {
    int sums = 0;
    int gathers = 0;
  };
  WaitingRank(std::unique_ptr<Collective> rank, Counts* counts)
      : rank_(std::move(rank)), counts_(counts) {}
  int rank() const override { return rank_->rank(); }
  int size() const override { return rank_->size(); }
  absl::Status AllReduceSum(std::span<float> values, void* /*stream*/) override {
    ++counts_->sums;
    return Wait(rank_->AllReduceSum(values, &stream_));
  }
  absl::Status AllGather(std::span<float> values, void* /*stream*/) override {
    ++counts_->gathers;
    return Wait(rank_->AllGather(values, &stream_));
  }
  absl::Status AllReduceSumOnHost(std::span<float> values) override {
    return rank_->AllReduceSumOnHost(values);
  }
  absl::Status status() override { return rank_->status(); }
  void Abort(const absl::Status& why) override { rank_->Abort(why); }

 private:
  absl::Status Wait(const absl::Status& queued) {
    stream_.Synchronize();
    return queued.ok() ? rank_->status() : queued;
  }

  nccl::FakeStream stream_;
  const std::unique_ptr<Collective> rank_;
  Counts* const counts_;
};

std::vector<std::unique_ptr<Collective>> NcclRanks(std::vector<WaitingRank::Counts>& counts) {
  auto library = NcclLibrary::Load(FakeNcclPath(), "--tensor-parallel-size 1");
  BATON_CHECK(library.ok()) << library.status().ToString();
  std::vector<int> devices;
  for (size_t rank = 0; rank < counts.size(); ++rank) devices.push_back(static_cast<int>(rank));
  auto group = kernels::cuda::MakeNcclGroup(*std::move(library), devices, std::chrono::seconds(20));
  BATON_CHECK(group.ok()) << group.status().ToString();
  std::vector<std::unique_ptr<Collective>> ranks;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    ranks.push_back(std::make_unique<WaitingRank>(std::move((*group)[rank]), &counts[rank]));
  }
  return ranks;
}

// As LoadModel does, on a group of the test's.
std::unique_ptr<LoadedModel> LoadOn(const std::string& dir, const ModelOptions& options,
                                    std::vector<std::unique_ptr<Collective>> group) {
  auto model = std::make_unique<LoadedModel>();
  model->group = std::move(group);
  model->config = *LoadModelConfig(dir);
  const auto files = *CheckpointFiles::Open(dir);
  const RankSource source = {.config = model->config,
                             .files = *files,
                             .options = options,
                             .clock = base::SteadyClock(),
                             .num_blocks = 64};
  auto ranks = LoadRanks(source, model->group, nullptr, [](const std::string&) {});
  BATON_CHECK(ranks.ok()) << ranks.status().ToString();
  std::vector<TensorParallelRunner::Rank> runners;
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    LoadedRank& loaded = (*ranks)[rank];
    runners.push_back({std::move(loaded.runner), model->group[rank].get()});
    if (rank > 0) {
      model->peers.push_back(std::move(loaded.rank));
      continue;
    }
    model->backend = std::move(loaded.rank.backend);
    model->arena = std::move(loaded.rank.arena);
  }
  model->runner = std::make_unique<TensorParallelRunner>(std::move(runners));
  return model;
}

TEST(NcclRanksTest, TheTokensAreThoseOfOneRank) {
  const GoldenModel golden = LoadGoldenModel(GoldenModelNames()[0]);
  ModelOptions options;
  options.device = kernels::Device::kReference;
  options.dtype = kernels::DType::kF32;
  options.tensor_parallel_size = 2;
  options.limits = {.max_tokens = 64, .max_samples = 8};
  std::vector<WaitingRank::Counts> counts(2);
  auto model = LoadOn(golden.dir, options, NcclRanks(counts));
  TestSequence sequence{.prompt = golden.prompt};
  RunnerDriver driver(*model);
  driver.Generate({&sequence}, kTokens, 13);
  auto alone = MustLoad(golden.dir, {"reference", "auto"}, "float32");
  TestSequence expected{.prompt = golden.prompt};
  RunnerDriver(*alone).Generate({&expected}, kTokens, 13);
  EXPECT_EQ(sequence.output, expected.output);
  EXPECT_EQ(counts[0].sums, counts[1].sums);
  // Two a layer and token; chunks without a token stop in the last layer and have no logits.
  EXPECT_GE(counts[0].sums, 2 * model->config.layers * kTokens);
  EXPECT_EQ(counts[0].gathers, kTokens);
  EXPECT_EQ(counts[1].gathers, kTokens);
}

}  // namespace
}  // namespace baton::test
