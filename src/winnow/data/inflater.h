// Bounded decompression: the caller says how many bytes it wants and gets no more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct z_stream_s;

namespace winnow {

// Decompresses borrowed bytes front to back. Corrupt input throws Error(kind data) naming `name`
// and the offset in the compressed bytes.
class Inflater {
 public:
  enum class Wrapping { gzip, raw };

  Inflater(std::string_view compressed, Wrapping wrapping, std::string name);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out` as far as there is content; returns how many bytes were written.
  std::size_t read(std::span<char> out);
  // Throws unless the content ends exactly here, with a right checksum and nothing behind it.
  void finish();

  // No content may be larger than this. Deflate packs at most 1032 bytes into one, which only blank
  // images come near; beyond 256 MiB a hundredfold is the limit, so that a small file cannot take
  // all memory.
  static std::uint64_t most_bytes(std::uint64_t compressed_size) {
    constexpr std::uint64_t kAlways = std::uint64_t{256} << 20;
    return std::min(1032 * (compressed_size + 1), std::max(kAlways, 100 * compressed_size));
  }

 private:
  std::string_view compressed_;
  std::string name_;
  std::unique_ptr<z_stream_s> stream_;
  std::size_t consumed_ = 0;
  std::uint64_t produced_ = 0;
  bool ended_ = false;
};

}  // namespace winnow
