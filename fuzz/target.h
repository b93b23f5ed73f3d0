// What the fuzz targets share. A target is one file that defines LLVMFuzzerTestOneInput: it hands
// the bytes to a reader, which may take them or throw winnow::Error. Anything else is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "winnow/base/error.h"

// What libFuzzer calls; extern "C" keeps their names.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed);
// What libFuzzer offers: changes the bytes in place and returns the new size.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace winnow::fuzz {

// A promise of a reader that an input broke. Nobody catches it but the replay program.
inline void require(bool holds, const char* promise) {
  if (!holds) {
    throw std::logic_error(std::string("broken promise: ") + promise);
  }
}

// Runs `read`; an Error is a right answer, unless it blames Winnow itself.
template <typename Read>
int only_errors(Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) {
      throw std::logic_error(std::string("an internal error: ") + error.what());
    }
  }
  return 0;
}

// The input, taken from its front: bytes that choose what is done, then the content.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 when there is none left.
  std::uint8_t byte() {
    if (rest_.empty()) {
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// A folder of this process for readers that want files; TMPDIR says where, best in memory.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "winnow-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make a folder like " + name);
    }
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file below the folder and returns its path.
  std::filesystem::path put(const std::filesystem::path& name, std::string_view content) const {
    std::filesystem::path path = path_ / name;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file.flush()) {
      throw std::runtime_error("cannot write " + path.string());
    }
    return path;
  }

 private:
  std::filesystem::path path_;
};

// What a mutator made, put where libFuzzer wants it; left alone when it is too long.
inline std::size_t hand_back(std::string_view made, std::uint8_t* data, std::size_t size,
                             std::size_t max_size) {
  if (made.size() > max_size) {
    return size;
  }
  made.copy(reinterpret_cast<char*>(data), made.size());
  return made.size();
}

// Lets libFuzzer change a text that is wrapped in something.
inline void mutate_text(std::string& text, std::size_t longest) {
  const std::size_t before = text.size();
  text.resize(std::max(before, longest));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), before, text.size()));
}

}  // namespace winnow::fuzz
