#include "kernels/reference/block_copy.h"

#include "common/base/check.h"
#include "kernels/block_checksum.h"

namespace baton::kernels::reference {

uint64_t CopyBlockPart(std::span<const std::byte> from, std::span<std::byte> to, int64_t offset,
                       int32_t used_slots, int32_t slot_bytes, int32_t block_size) {
  BATON_CHECK(from.size() == to.size()) << from.size() << " bytes to " << to.size();
  for (size_t i = 0; i < from.size(); ++i) {
    const bool used =
        used_slots < 0 || (offset + static_cast<int64_t>(i)) / slot_bytes % block_size < used_slots;
    to[i] = used ? from[i] : std::byte{0};
  }
  return BlockChecksum(to.data(), to.size());
}

}  // namespace baton::kernels::reference
