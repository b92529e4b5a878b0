#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"

namespace baton {

// The name of what a worker computes, as 32 hexadecimal digits. It is made from the model
// directory's configuration and tokenizer files, the headers of its files of weights, bytes sampled
// from every tensor, and the compute dtype, so copies of a model in different places have the same
// one. Reading all weights would take longer than a load that maps packed ones. So checkpoints that
// differ only in weights between the samples, and in none of the files, have the same one, too.
absl::StatusOr<std::string> ModelFingerprint(const std::string& model_dir,
                                             const CheckpointFiles& files,
                                             kernels::DType compute_dtype);

}  // namespace baton
