// SHA-256, for model hashes and the identity of experiments and ledgers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace winnow {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest as 64 hexadecimal digits. Ends the object's life: start a new one afterwards.
  std::string hex();

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                      0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  std::array<std::byte, 64> pending_{};
  std::size_t pending_size_ = 0;
  std::uint64_t total_ = 0;
};

std::string sha256_hex(std::string_view text);

// What a digest of many bytes is made of. Programs that fuzz have small pieces, so that a model of
// several of them is small, too.
#if defined(WINNOW_SMALL_PIECES)
inline constexpr std::size_t kHashPiece = std::size_t{1} << 12;
#else
inline constexpr std::size_t kHashPiece = std::size_t{1} << 20;
#endif

// A digest of many bytes, computed on all cores. It is their SHA-256; of more than a piece, the
// SHA-256 of the digests of each piece, in hexadecimal, one after the other.
std::string sha256_in_pieces(std::span<const std::byte> bytes);

}  // namespace winnow
