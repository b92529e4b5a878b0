// Staging buffers in a GPU: copies with checksums, what the host sees of them, and what another
// process maps of them. That process is this binary again, with an environment variable.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/block_checksum.h"
#include "kernels/cuda/memory/staging.h"

extern char** environ;

namespace baton::kernels::cuda {
namespace {

constexpr int64_t kBufferBytes = 1 << 20;
constexpr char kOwner[] = "BATON_TEST_OWNS_STAGING";
constexpr std::byte kMark{0x7e};

absl::StatusOr<std::unique_ptr<StagingBuffers>> Make(bool blocks_elsewhere = false) {
  return StagingBuffers::Create({.device = 0,
                                 .buffers = 2,
                                 .buffer_bytes = kBufferBytes,
                                 .host_bytes = 65536,
                                 .blocks_elsewhere = blocks_elsewhere});
}

class StagingTest : public testing::TestWithParam<bool> {
 protected:
  StagingTest() {
    auto staging = Make(GetParam());
    EXPECT_TRUE(staging.ok()) << staging.status();
    if (staging.ok()) staging_ = *std::move(staging);
  }
  void SetUp() override { ASSERT_NE(staging_, nullptr); }

  std::vector<std::byte> Random(size_t bytes) {
    std::vector<std::byte> made(bytes);
    for (std::byte& b : made) b = static_cast<std::byte>(random_());
    return made;
  }

  std::unique_ptr<StagingBuffers> staging_;
  std::mt19937 random_{42};
};
INSTANTIATE_TEST_SUITE_P(Blocks, StagingTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "OfAnyGpu" : "OfThisGpu"; });

TEST_P(StagingTest, PartsAreGatheredAndScatteredWithTheirSums) {
  // More than one launch takes; the sizes are those of small and odd blocks.
  std::vector<BlockPart> out, back;
  std::vector<std::vector<std::byte>> bytes;
  auto blocks = DeviceMemory::Allocate(kBufferBytes);
  auto target = DeviceMemory::Allocate(kBufferBytes);
  ASSERT_TRUE(blocks.ok() && target.ok());
  int64_t at = 0;
  for (int i = 0; i < 5000; ++i, at += 208) {
    bytes.push_back(Random(static_cast<size_t>(1 + i % 200)));
    std::byte* const block = static_cast<std::byte*>((*blocks)->data()) + at;
    ASSERT_TRUE(staging_->FromHost(bytes.back(), block).ok());
    std::byte* const staged = staging_->buffer(1) + at;
    const auto size = static_cast<int64_t>(bytes.back().size());
    out.push_back({block, staged, size});
    back.push_back({staged, static_cast<std::byte*>((*target)->data()) + at, size});
  }
  const auto sent = staging_->Copy(out, /*sums=*/true);
  ASSERT_TRUE(sent.ok()) << sent.status();
  ASSERT_TRUE(staging_->Copy(back, /*sums=*/false)->empty());
  const auto found = staging_->Sum(back);
  ASSERT_TRUE(found.ok()) << found.status();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t sum = BlockChecksum(bytes[i].data(), bytes[i].size());
    ASSERT_EQ((*sent)[i], sum) << i;
    ASSERT_EQ((*found)[i], sum) << i;
    std::vector<std::byte> read(bytes[i].size());
    ASSERT_TRUE(staging_->ToHost(back[i].to, read).ok());
    ASSERT_EQ(read, bytes[i]) << i;
  }
}

TEST_P(StagingTest, BuffersBeginAsZerosAndCanBeCleared) {
  std::vector<std::byte> read(65536);
  ASSERT_TRUE(staging_->ToHost(staging_->buffer(1), read).ok());
  EXPECT_EQ(read, std::vector<std::byte>(65536));
  ASSERT_TRUE(staging_->FromHost(Random(100), staging_->buffer(1)).ok());
  ASSERT_TRUE(staging_->Zero(staging_->buffer(1), 100).ok());
  ASSERT_TRUE(staging_->ToHost(staging_->buffer(1), read).ok());
  EXPECT_EQ(read, std::vector<std::byte>(65536));
}

TEST_P(StagingTest, MarksAreReachedAndErrorsOfHandlesAreNoDeviceFaults) {
  for (int index = 0; index < 2; ++index) {
    ASSERT_TRUE(staging_->Mark(index).ok());
    while (true) {
      const auto reached = staging_->Reached(index);
      ASSERT_TRUE(reached.ok()) << reached.status();
      if (*reached) break;
    }
  }
  EXPECT_EQ(staging_->Map("host memory", 1).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string handle = *staging_->Export();
  EXPECT_EQ(staging_->Map(handle, staging_->bytes() + 1).status().code(),
            absl::StatusCode::kDataLoss);
  // A process cannot map what it exported itself.
  EXPECT_EQ(staging_->Map(handle, 1).status().code(), absl::StatusCode::kUnavailable);
  // The device goes on.
  ASSERT_TRUE(staging_->Zero(staging_->buffer(0), 16).ok());
}

// Another process with buffers of its own, of which the second is full of marks.
class Owner final {
 public:
  Owner() {
    EXPECT_EQ(pipe(to_.data()), 0);
    EXPECT_EQ(pipe(from_.data()), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_[1], 3);
    posix_spawn_file_actions_addclose(&actions, to_[1]);
    setenv(kOwner, "1", 1);
    char* const arguments[] = {const_cast<char*>("staging_owner"), nullptr};
    EXPECT_EQ(posix_spawn(&child_, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
    unsetenv(kOwner);
    posix_spawn_file_actions_destroy(&actions);
    close(to_[0]);
    close(from_[1]);
  }
  ~Owner() { End(); }

  std::string Handle() {
    std::string handle(256, '\0');
    const ssize_t got = read(from_[0], handle.data(), handle.size());
    handle.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return handle;
  }
  void End() {
    if (child_ == 0) return;
    close(to_[1]);
    close(from_[0]);
    waitpid(std::exchange(child_, 0), nullptr, 0);
  }

 private:
  std::array<int, 2> to_{}, from_{};
  pid_t child_ = 0;
};

TEST_P(StagingTest, AnotherProcessCopiesOutOfTheMappedBuffers) {
  Owner owner;
  const std::string handle = owner.Handle();
  ASSERT_FALSE(handle.empty()) << "the other process has no handle";
  const auto mapped = staging_->Map(handle, 2 * kBufferBytes);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_TRUE(staging_->CopyMapped(**mapped, kBufferBytes, 4096, staging_->buffer(0)).ok());
  std::vector<std::byte> read(8192);
  ASSERT_TRUE(staging_->ToHost(staging_->buffer(0), read).ok());
  for (size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], i < 4096 ? kMark : std::byte{0}) << i;
  }
}

TEST_P(StagingTest, AHandleOfAProcessThatIsGoneIsRefused) {
  Owner owner;
  const std::string handle = owner.Handle();
  ASSERT_FALSE(handle.empty());
  owner.End();
  EXPECT_EQ(staging_->Map(handle, kBufferBytes).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(staging_->Zero(staging_->buffer(0), 16).ok());
}

// The other process: writes its handle to descriptor 3 and stays until its input ends.
int Own() {
  const auto staging = Make();
  if (!staging.ok()) return 1;
  const std::vector<std::byte> marks(65536, kMark);
  if (!(*staging)->FromHost(marks, (*staging)->buffer(1)).ok()) return 1;
  const auto handle = (*staging)->Export();
  if (!handle.ok()) return 1;
  if (write(3, handle->data(), handle->size()) != static_cast<ssize_t>(handle->size())) return 1;
  char end = 0;
  return static_cast<int>(read(0, &end, 1));
}

}  // namespace
}  // namespace baton::kernels::cuda

int main(int argc, char** argv) {
  if (std::getenv(baton::kernels::cuda::kOwner) != nullptr) return baton::kernels::cuda::Own();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
