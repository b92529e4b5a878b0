#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"

namespace baton {

// FNV-1a with 128 bits (Fowler, Noll, Vo). Tells apart what differs by accident; it is no defence
// against someone who wants two inputs to agree.
class Fnv128 final {
 public:
  void Add(std::span<const std::byte> bytes);
  // Preceded by its length, so that neighbours cannot be confused.
  void Add(std::string_view text);
  std::string Hex() const;  // 32 digits

 private:
  // The offset basis 0x6c62272e07bb014262b821756295c58d.
  unsigned __int128 state_ =
      static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
};

// Names what a worker computes: the model directory's configuration and tokenizer files, the
// headers of its safetensors files, bytes sampled from every tensor, and the compute dtype. Equal
// for copies of a model in different places. Hex, 32 digits.
absl::StatusOr<std::string> ModelFingerprint(const std::string& model_dir,
                                             const CheckpointFiles& files,
                                             kernels::DType compute_dtype);

}  // namespace baton
