// Copies between device memory and the host by threads that do not compute.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/cuda/memory/host_copies.h"

namespace baton::kernels::cuda {
namespace {

TEST(HostCopiesTest, WhatIsWrittenInPartsIsReadBack) {
  const auto copies = HostCopies::Create(0, 1024);
  ASSERT_TRUE(copies.ok()) << copies.status();
  const auto memory = DeviceMemory::Allocate(1000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const std::span<const std::byte> all(bytes);
  const std::span<const std::byte> parts[] = {all.first(1), all.subspan(1, 600), all.subspan(601)};
  ASSERT_TRUE((*copies)->Write(parts, (*memory)->data()).ok());
  std::vector<std::byte> read(1000);
  ASSERT_TRUE((*copies)->Read((*memory)->data(), read).ok());
  EXPECT_EQ(read, bytes);
}

TEST(HostCopiesTest, ThreadsDoNotMixTheirBytes) {
  const auto copies = HostCopies::Create(0, 4096);
  ASSERT_TRUE(copies.ok()) << copies.status();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      ASSERT_TRUE(SelectDevice(0).ok());
      const auto memory = DeviceMemory::Allocate(4096);
      ASSERT_TRUE(memory.ok()) << memory.status();
      const std::vector<std::byte> bytes(4096, static_cast<std::byte>(thread));
      const std::span<const std::byte> part(bytes);
      for (int round = 0; round < 50; ++round) {
        std::vector<std::byte> read(4096);
        ASSERT_TRUE((*copies)->Write({&part, 1}, (*memory)->data()).ok());
        ASSERT_TRUE((*copies)->Read((*memory)->data(), read).ok());
        ASSERT_EQ(read, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostCopiesTest, MoreThanTheStagingBufferIsRefused) {
  const auto copies = HostCopies::Create(0, 16);
  ASSERT_TRUE(copies.ok()) << copies.status();
  std::vector<std::byte> read(17);
  EXPECT_FALSE((*copies)->Read(nullptr, read).ok());
}

TEST(EventTest, AskingForOneThatIsNotReachedLeavesNoError) {
  ASSERT_TRUE(SelectDevice(0).ok());
  const auto stream = Stream::Create();
  auto event = Event::Create();
  const auto memory = DeviceMemory::Allocate(size_t{256} << 20);
  ASSERT_TRUE(stream.ok() && event.ok() && memory.ok()) << memory.status();
  for (int fill = 0; fill < 100; ++fill) {  // takes much longer than to ask
    ASSERT_TRUE(Fill((*memory)->data(), fill, (*memory)->size(), stream->handle()).ok());
  }
  ASSERT_TRUE(event->Record(stream->handle()).ok());
  const auto done = event->Done();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_FALSE(*done);
  EXPECT_TRUE(LastLaunchStatus("asking for an event").ok());
  EXPECT_TRUE(stream->Synchronize().ok());
}

}  // namespace
}  // namespace baton::kernels::cuda
