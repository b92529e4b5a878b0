#include "common/model/random/random_weights.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/status.h"
#include "common/model/tensor_specs.h"
#include "kernels/float_convert.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using kernels::DType;

constexpr int64_t kPieceElements = 1 << 20;
constexpr int64_t kValuesPerDraw = 8;  // 16 bits each of Philox's 128

// The part of a tensor that one thread makes and writes at once.
struct Piece {
  uint32_t tensor = 0;
  int64_t begin = 0;  // element of the tensor, a multiple of kValuesPerDraw
  int64_t end = 0;
  int64_t file_offset = 0;  // of element `begin`
  float center = 0;
  float spread = 0;  // values are uniform in center ± spread
};

DType DTypeOf(const ModelConfig& config) {
  return kernels::ParseDType(config.dtype).value_or(DType::kBF16);
}

const char* SafetensorsName(DType dtype) {
  if (dtype == DType::kF32) return "F32";
  return dtype == DType::kF16 ? "F16" : "BF16";
}

// Rounds towards zero. |value| is at most 2, and what is below the normal range becomes 0.
uint16_t F16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = bits >> 23 & 0xff;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (exponent < 113) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

void Store(std::byte* out, DType dtype, float value) {
  if (dtype == DType::kF32) {
    std::memcpy(out, &value, sizeof(value));
    return;
  }
  const uint16_t bits = dtype == DType::kBF16 ? kernels::Bf16FromFloat(value) : F16FromFloat(value);
  std::memcpy(out, &bits, sizeof(bits));
}

void FillPiece(const Piece& piece, uint64_t seed, DType dtype, std::byte* out) {
  const size_t size = SizeOf(dtype);
  for (int64_t first = piece.begin; first < piece.end; first += kValuesPerDraw) {
    const uint64_t draw = static_cast<uint64_t>(first / kValuesPerDraw);
    const auto words = base::Philox4x32(
        {static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), piece.tensor, 0}, seed);
    const int64_t count = std::min(kValuesPerDraw, piece.end - first);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = words[i / 2] >> (i % 2 * 16) & 0xffff;
      const float uniform = (static_cast<float>(bits) - 32767.5F) / 32768.0F;  // in (-1, 1)
      Store(out, dtype, piece.center + piece.spread * uniform);
      out += size;
    }
  }
}

std::vector<Piece> PlanPieces(const std::vector<TensorSpec>& specs, int64_t data_offset,
                              int64_t element_bytes) {
  std::vector<Piece> pieces;
  for (uint32_t tensor = 0; tensor < specs.size(); ++tensor) {
    const TensorSpec& spec = specs[tensor];
    const bool matrix = spec.shape.size() == 2;
    const bool bias = absl::EndsWith(spec.name, ".bias");
    const float spread =
        matrix ? std::sqrt(3.0F / static_cast<float>(spec.shape[1])) : (bias ? 0.1F : 0.2F);
    for (int64_t begin = 0; begin < spec.elements(); begin += kPieceElements) {
      pieces.push_back({.tensor = tensor,
                        .begin = begin,
                        .end = std::min(spec.elements(), begin + kPieceElements),
                        .file_offset = data_offset + begin * element_bytes,
                        .center = matrix || bias ? 0.0F : 1.0F,
                        .spread = spread});
    }
    data_offset += spec.elements() * element_bytes;
  }
  return pieces;
}

// The length of the header, then the header, padded so that the data is aligned to 64 bytes.
std::string Header(const std::vector<TensorSpec>& specs, DType dtype) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  int64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    const int64_t end = offset + spec.elements() * static_cast<int64_t>(SizeOf(dtype));
    json[spec.name] = {
        {"dtype", SafetensorsName(dtype)}, {"shape", spec.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.append((64 - (text.size() + 8) % 64) % 64, ' ');
  const uint64_t length = text.size();  // little-endian, as this code's machines are
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header + text;
}

bool WriteAt(int file, const void* data, size_t size, int64_t offset) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(file, bytes, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
    offset += written;
  }
  return true;
}

// Fills and writes all pieces on every core. Returns 0 or the first errno.
int WritePieces(int file, const std::vector<Piece>& pieces, uint64_t seed, DType dtype) {
  std::atomic<size_t> next{0};
  std::atomic<int> failed{0};
  const auto work = [&] {
    std::vector<std::byte> bytes(kPieceElements * SizeOf(dtype));
    for (size_t i = next++; i < pieces.size() && failed == 0; i = next++) {
      FillPiece(pieces[i], seed, dtype, bytes.data());
      const size_t size = (pieces[i].end - pieces[i].begin) * SizeOf(dtype);
      if (!WriteAt(file, bytes.data(), size, pieces[i].file_offset)) failed = errno;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return failed;
}

}  // namespace

absl::Status WriteRandomWeights(const ModelConfig& config, uint64_t seed, const std::string& path) {
  const DType dtype = DTypeOf(config);
  const std::vector<TensorSpec> specs = ExpectedTensors(config);
  const std::string header = Header(specs, dtype);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  const std::vector<Piece> pieces =
      PlanPieces(specs, static_cast<int64_t>(header.size()), static_cast<int64_t>(SizeOf(dtype)));
  int error = WriteAt(file, header.data(), header.size(), 0) ? 0 : errno;
  if (error == 0) error = WritePieces(file, pieces, seed, dtype);
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) return absl::ErrnoToStatus(error, path);
  return absl::OkStatus();
}

}  // namespace baton
