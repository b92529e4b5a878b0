#pragma once

#include "kernels/block_checksum.h"
#include "kernels/cuda/cta/block_data.h"
#include "kernels/cuda/cta/cta.h"

// The algorithm of kernels/cuda/memory/blocks.cu, over a Cta so that tests can run it on the host.
namespace baton::kernels::cuda {

constexpr int kCopyThreads = 256;
constexpr int64_t kCopyBlockBytes = 65536;  // of a part, moved by one block of threads

struct alignas(16) WordPair {
  uint64_t low;
  uint64_t high;
};

struct CopyShared {
  uint64_t sums[kCopyThreads];
};

BATON_HD bool Aligned16(const void* pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & 15) == 0;
}

// Copies bytes [at, at + count) one by one and returns the sum of their checksum terms; count
// <= 16.
BATON_HD uint64_t CopyTail(const BlockPart& part, int64_t at, int64_t count) {
  const unsigned char* const from = static_cast<const unsigned char*>(part.from) + at;
  unsigned char* const to = static_cast<unsigned char*>(part.to) + at;
  uint64_t sum = 0;
  for (int64_t word_at = 0; word_at < count; word_at += 8) {
    const int64_t bytes = count - word_at < 8 ? count - word_at : 8;
    uint64_t word = 0;
    for (int64_t i = 0; i < bytes; ++i) word |= static_cast<uint64_t>(from[word_at + i]) << (8 * i);
    for (int64_t i = 0; i < bytes; ++i) {
      to[word_at + i] = static_cast<unsigned char>(word >> (8 * i) & 0xff);
    }
    sum += ChecksumTerm(word, static_cast<uint64_t>((at + word_at) / 8));
  }
  return sum;
}

// Copies the 16 bytes at `at`, or what is left of the part, and returns the sum of their terms.
BATON_HD uint64_t CopyPair(const BlockPart& part, int64_t at, bool aligned) {
  if (!aligned || part.bytes - at < 16) {
    return CopyTail(part, at, part.bytes - at < 16 ? part.bytes - at : 16);
  }
  const WordPair pair =
      *reinterpret_cast<const WordPair*>(static_cast<const char*>(part.from) + at);
  *reinterpret_cast<WordPair*>(static_cast<char*>(part.to) + at) = pair;
  const uint64_t index = static_cast<uint64_t>(at / 8);
  return ChecksumTerm(pair.low, index) + ChecksumTerm(pair.high, index + 1);
}

// The sum of the checksum terms of the 16 bytes at `at` of the destination, or of what is left.
BATON_HD uint64_t SumPair(const BlockPart& part, int64_t at, bool aligned) {
  const unsigned char* const from = static_cast<const unsigned char*>(part.to) + at;
  const uint64_t index = static_cast<uint64_t>(at / 8);
  const int64_t left = part.bytes - at;
  if (aligned && left >= 16) {
    const WordPair pair = *reinterpret_cast<const WordPair*>(from);
    return ChecksumTerm(pair.low, index) + ChecksumTerm(pair.high, index + 1);
  }
  uint64_t sum = 0;
  for (int64_t word_at = 0; word_at < 16 && word_at < left; word_at += 8) {
    uint64_t word = 0;
    for (int64_t i = 0; i < 8 && word_at + i < left; ++i) {
      word |= static_cast<uint64_t>(from[word_at + i]) << (8 * i);
    }
    sum += ChecksumTerm(word, index + static_cast<uint64_t>(word_at / 8));
  }
  return sum;
}

// The checksum terms of bytes [begin, begin + kCopyBlockBytes) of the part, summed by one block of
// threads. With kCopies the bytes are copied on the way; else the destination is only read.
template <bool kCopies, typename Cta>
BATON_HD uint64_t WorkOnPart(Cta& cta, const BlockPart& part, int64_t begin, CopyShared& shared) {
  const int64_t end = begin + kCopyBlockBytes < part.bytes ? begin + kCopyBlockBytes : part.bytes;
  const bool aligned = Aligned16(part.to) && (!kCopies || Aligned16(part.from));
  cta.ForEach([&](int t) {
    uint64_t sum = 0;
    for (int64_t at = begin + 16 * t; at < end; at += 16 * kCopyThreads) {
      sum += kCopies ? CopyPair(part, at, aligned) : SumPair(part, at, aligned);
    }
    shared.sums[t] = sum;
  });
  return TreeReduce(cta, shared.sums, kCopyThreads, [](uint64_t a, uint64_t b) { return a + b; });
}

}  // namespace baton::kernels::cuda
