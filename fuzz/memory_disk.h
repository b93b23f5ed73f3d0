// Where SQLite keeps a database of a fuzz target: in memory, and as it was with one copy.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "target.h"

namespace winnow::fuzz {

// Has room for one database, whose name is place(). It may have several connections, which take
// turns: nothing is locked.
class MemoryDisk {
 public:
  static MemoryDisk& instance() {
    static MemoryDisk disk;
    return disk;
  }

  static const char* place() { return "file:/database?vfs=winnow-memory"; }

  // To be called while nothing is under way.
  void keep() { kept_ = database_; }
  // The database is what it was when it was kept. Its connections see that by the number of changes
  // in the header, which grows on; the pages that they remember they then read again.
  void put_back() {
    std::uint32_t changes = 0;
    for (std::size_t i = 0; i < kNumber; ++i) {
      changes = changes << 8U | static_cast<unsigned char>(database_.at(kChanges + i));
    }
    ++changes;
    database_ = kept_;
    for (std::size_t i = kNumber; i-- > 0; changes >>= 8U) {
      database_[kChanges + i] = database_[kChangesOfSize + i] = static_cast<char>(changes);
    }
  }

 private:
  // In the header of a database: how often it was changed, and when its size was last true.
  static constexpr std::size_t kNumber = 4;
  static constexpr std::size_t kChanges = 24;
  static constexpr std::size_t kChangesOfSize = 92;

  struct File {
    sqlite3_file base;  // first: SQLite knows a file by it
    std::string* bytes;
    bool is_own;  // nobody else knows it, and it goes when it is closed
  };
  static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  static bool is_undo(std::string_view name) { return name.ends_with("-journal"); }

  MemoryDisk() {
    methods_.iVersion = 1;
    methods_.xClose = [](sqlite3_file* file) {
      if (of(file).is_own) {
        delete of(file).bytes;
      }
      return SQLITE_OK;
    };
    methods_.xRead = [](sqlite3_file* file, void* to, int count, sqlite3_int64 from) {
      const auto wanted = static_cast<std::size_t>(count);
      const std::string_view bytes = *of(file).bytes;
      const std::string_view there =
          bytes.substr(std::min(bytes.size(), static_cast<std::size_t>(from)), wanted);
      there.copy(static_cast<char*>(to), there.size());
      std::memset(static_cast<char*>(to) + there.size(), 0, wanted - there.size());
      return there.size() == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
    };
    methods_.xWrite = [](sqlite3_file* file, const void* data, int count, sqlite3_int64 at) {
      std::string& bytes = *of(file).bytes;
      const auto begin = static_cast<std::size_t>(at);
      const auto size = static_cast<std::size_t>(count);
      bytes.resize(std::max(bytes.size(), begin + size));
      std::memcpy(bytes.data() + begin, data, size);
      return SQLITE_OK;
    };
    methods_.xTruncate = [](sqlite3_file* file, sqlite3_int64 size) {
      of(file).bytes->resize(static_cast<std::size_t>(size));
      return SQLITE_OK;
    };
    methods_.xSync = [](sqlite3_file* /*file*/, int /*flags*/) { return SQLITE_OK; };
    methods_.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
      *size = std::ssize(*of(file).bytes);
      return SQLITE_OK;
    };
    methods_.xLock = [](sqlite3_file* /*file*/, int /*lock*/) { return SQLITE_OK; };
    methods_.xUnlock = methods_.xLock;
    methods_.xCheckReservedLock = [](sqlite3_file* /*file*/, int* is) {
      *is = 0;
      return SQLITE_OK;
    };
    methods_.xFileControl = [](sqlite3_file* /*file*/, int /*what*/, void* /*about*/) {
      return SQLITE_NOTFOUND;
    };
    methods_.xSectorSize = [](sqlite3_file* /*file*/) { return 512; };
    methods_.xDeviceCharacteristics = [](sqlite3_file* /*file*/) {
      return SQLITE_IOCAP_SAFE_APPEND | SQLITE_IOCAP_SEQUENTIAL | SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    };

    disk_ = *sqlite3_vfs_find(nullptr);  // random numbers and time are those of the system
    disk_.iVersion = 1;
    disk_.szOsFile = sizeof(File);
    disk_.zName = "winnow-memory";
    disk_.pNext = nullptr;
    disk_.xOpen = [](sqlite3_vfs* /*disk*/, const char* /*name*/, sqlite3_file* file, int flags,
                     int* got) {
      std::string* known = (flags & SQLITE_OPEN_MAIN_DB) != 0        ? &instance().database_
                           : (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0 ? &instance().undo_
                                                                     : nullptr;
      instance().can_undo_ = instance().can_undo_ || known == &instance().undo_;
      of(file) = {
          {&instance().methods_}, known == nullptr ? new std::string : known, known == nullptr};
      if (got != nullptr) {
        *got = flags;
      }
      return SQLITE_OK;
    };
    // What SQLite deletes and asks for is what a change would be taken back with.
    disk_.xDelete = [](sqlite3_vfs* /*disk*/, const char* name, int /*sync*/) {
      if (is_undo(name)) {
        instance().undo_.clear();
        instance().can_undo_ = false;
      }
      return SQLITE_OK;
    };
    disk_.xAccess = [](sqlite3_vfs* /*disk*/, const char* name, int /*what*/, int* is) {
      *is = is_undo(name) && instance().can_undo_ ? 1 : 0;
      return SQLITE_OK;
    };
    disk_.xFullPathname = [](sqlite3_vfs* /*disk*/, const char* name, int room, char* path) {
      sqlite3_snprintf(room, path, "%s", name);
      return SQLITE_OK;
    };
    require(sqlite3_vfs_register(&disk_, 0) == SQLITE_OK, "SQLite takes a disk in memory");
  }

  sqlite3_io_methods methods_{};
  sqlite3_vfs disk_{};
  std::string database_;
  std::string undo_;
  bool can_undo_ = false;
  std::string kept_;
};

}  // namespace winnow::fuzz
