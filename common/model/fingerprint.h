#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"

namespace baton {

// The hash FNV-1a (Fowler, Noll, Vo) with 128 bits. It tells apart what differs by accident; it is
// no defence against someone who wants two inputs to agree.
class Fnv128 final {
 public:
  void Add(std::span<const std::byte> bytes);
  // Adds the text's length before the text, so that it is not confused with what follows.
  void Add(std::string_view text);
  std::string Hex() const;  // 32 digits

 private:
  // The offset basis 0x6c62272e07bb014262b821756295c58d.
  unsigned __int128 state_ =
      static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
};

// The name of what a worker computes, as 32 hexadecimal digits. It is made from the model
// directory's configuration and tokenizer files, the headers of its safetensors files, bytes
// sampled from every tensor, and the compute dtype, so copies of a model in different places have
// the same one.
absl::StatusOr<std::string> ModelFingerprint(const std::string& model_dir,
                                             const CheckpointFiles& files,
                                             kernels::DType compute_dtype);

}  // namespace baton
