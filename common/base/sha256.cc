#include "common/base/sha256.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"
#include "openssl/sha.h"

namespace baton {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

std::string HexOf(const std::array<unsigned char, SHA256_DIGEST_LENGTH>& digest) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return HexOf(digest);
}

bool IsSameDigest(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<char> piece(kPieceBytes);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    EVP_DigestUpdate(context.get(), piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  return HexOf(digest);
}

}  // namespace baton
