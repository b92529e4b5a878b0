#include "common/kv/block_layout.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace baton {
namespace {

void Append(std::span<const std::byte> run, ConstByteParts* parts) {
  if (!parts->empty() && parts->back().data() + parts->back().size() == run.data()) {
    parts->back() = {parts->back().data(), parts->back().size() + run.size()};
  } else {
    parts->push_back(run);
  }
}

template <typename Parts>
size_t Sum(const Parts& parts) {
  size_t sum = 0;
  for (const auto part : parts) sum += part.size();
  return sum;
}

template <typename Parts>
Parts Cut(const Parts& parts, size_t offset, size_t size) {
  Parts range;
  for (const auto part : parts) {
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    const size_t taken = std::min(size, part.size() - offset);
    if (taken > 0) range.push_back(part.subspan(offset, taken));
    size -= taken;
    offset = 0;
    if (size == 0) break;
  }
  BATON_CHECK(size == 0) << size << " bytes beyond the end";
  return range;
}

}  // namespace

ConstByteParts InOrderOf(const KvShape& to, const KvShape& from, const ByteParts& ranks) {
  BATON_CHECK(CanHandOver(from, to)) << from.Describe() << " to " << to.Describe();
  BATON_CHECK(static_cast<int32_t>(ranks.size()) == from.tensor_parallel) << ranks.size();
  if (from == to) return {ranks.begin(), ranks.end()};
  const int64_t planes = 2 * int64_t{from.layers};  // K and V of each layer
  const int64_t held = from.heads_per_rank();
  const size_t run = ranks[0].size() / static_cast<size_t>(planes * held);  // of one head
  ConstByteParts parts;
  for (int32_t rank = 0; rank < to.tensor_parallel; ++rank) {
    for (int64_t plane = 0; plane < planes; ++plane) {
      for (int32_t i = 0; i < to.heads_per_rank(); ++i) {
        const int32_t head = to.first_head(rank) + i;
        const int32_t source = from.rank_of(head);
        const int64_t place = plane * held + head - from.first_head(source);
        Append(ranks[source].subspan(static_cast<size_t>(place) * run, run), &parts);
      }
    }
  }
  return parts;
}

size_t SizeOf(const ByteParts& parts) { return Sum(parts); }
size_t SizeOf(const ConstByteParts& parts) { return Sum(parts); }

ByteParts Subrange(const ByteParts& parts, size_t offset, size_t size) {
  return Cut(parts, offset, size);
}
ConstByteParts Subrange(const ConstByteParts& parts, size_t offset, size_t size) {
  return Cut(parts, offset, size);
}

void CopyParts(const ConstByteParts& from, const ByteParts& to) {
  auto target = to.begin();
  size_t filled = 0;  // of *target
  for (std::span<const std::byte> part : from) {
    while (!part.empty()) {
      BATON_CHECK(target != to.end()) << part.size() << " bytes too many";
      const size_t size = std::min(part.size(), target->size() - filled);
      if (size > 0) std::memcpy(target->data() + filled, part.data(), size);
      part = part.subspan(size);
      filled += size;
      if (filled < target->size()) continue;
      ++target;
      filled = 0;
    }
  }
}

void ZeroUnused(const BlockRows& rows, std::span<std::byte> block) {
  BATON_CHECK(0 <= rows.used && rows.used <= rows.block_size) << rows.used << " positions used";
  const size_t row = rows.row_bytes(block.size());
  const size_t used = rows.used_bytes(block.size());
  if (used == row) return;
  for (size_t at = 0; at < block.size(); at += row) {
    std::memset(block.data() + at + used, 0, row - used);
  }
}

}  // namespace baton
