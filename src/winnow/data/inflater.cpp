#include "winnow/data/inflater.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/data/bytes.h"

namespace winnow {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

Inflater::Inflater(std::string_view compressed, Wrapping wrapping, std::string name)
    : compressed_(compressed), name_(std::move(name)), stream_(std::make_unique<z_stream_s>()) {
  const int window = wrapping == Wrapping::gzip ? 16 + MAX_WBITS : -MAX_WBITS;
  if (inflateInit2(stream_.get(), window) != Z_OK) {
    throw Error(ErrorKind::internal, "zlib does not start");
  }
}

Inflater::~Inflater() {
  inflateEnd(stream_.get());
}

std::size_t Inflater::read(std::span<char> out) {
  std::size_t written = 0;
  while (written < out.size() && !ended_) {
    const std::size_t in = std::min(kChunk, compressed_.size() - consumed_);
    const std::size_t room = std::min(kChunk, out.size() - written);
    // zlib's interface is not const-correct; it does not write to its input.
    stream_->next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(compressed_.data() + consumed_));  // NOLINT
    stream_->avail_in = static_cast<uInt>(in);
    stream_->next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream_->avail_out = static_cast<uInt>(room);
    const int status = inflate(stream_.get(), Z_NO_FLUSH);
    const std::size_t used = in - stream_->avail_in;
    const std::size_t made = room - stream_->avail_out;
    consumed_ += used;
    written += made;
    produced_ += made;
    ended_ = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      damaged(name_, consumed_,
              fmt::format("corrupt compressed data: {}",
                          stream_->msg != nullptr ? stream_->msg : "unknown damage"));
    }
    if (used == 0 && made == 0 && !ended_) {
      break;  // the input is exhausted
    }
  }
  return written;
}

void Inflater::finish() {
  char extra = 0;
  if (read({&extra, 1}) != 0) {
    damaged(name_, produced_ - 1, "trailing bytes in the uncompressed data");
  }
  if (!ended_) {
    damaged(name_, consumed_, "truncated compressed data");
  }
  if (consumed_ != compressed_.size()) {
    damaged(name_, consumed_, "trailing bytes after the compressed data");
  }
}

}  // namespace winnow
