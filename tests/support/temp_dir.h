// tests/support/temp_dir.h -- a private directory that removes itself.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace weft::test {

class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace weft::test
