// Files that people name: read whole, or refused for what they are.
#include "base/text_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

class TextFile : public ::testing::Test {
 protected:
  static std::string refusal(const std::string& name) {
    const Result<std::string> text = read_text_file(name);
    return text.ok() ? "read" : text.error().text;
  }

  TempDir dir;
  const std::string path = dir.path() + "/file";
};

TEST_F(TextFile, is_read_whole_whatever_it_holds) {
  for (const size_t bytes : {size_t{0}, size_t{1}, kTextFileBytesMax}) {
    std::string text(bytes, 'a');
    if (bytes != 0) text.back() = '\0';
    std::ofstream(path, std::ios::binary) << text;
    const Result<std::string> got = read_text_file(path);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_TRUE(got.value() == text);
  }
}

TEST_F(TextFile, that_is_too_long_or_not_there_is_refused) {
  std::ofstream(path) << std::string(kTextFileBytesMax + 1, 'a');
  EXPECT_EQ(refusal(path), "cannot read " + path + ": larger than 1048576 bytes");
  EXPECT_EQ(refusal(path + "/x"), "cannot read " + path + "/x: Not a directory");
  EXPECT_EQ(refusal(dir.path() + "/none"), "cannot read " + dir.path() + "/none: No such file or directory");
}

TEST_F(TextFile, that_may_not_be_read_is_refused) {
  constexpr uid_t kNobody = 65534;
  std::ofstream(path) << "text";
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  setfsuid(kNobody);  // root may read everything; others stay who they are
  EXPECT_EQ(refusal(path), "cannot read " + path + ": Permission denied");
  setfsuid(geteuid());
}

/// A FIFO without a writer would be waited for.
TEST_F(TextFile, that_is_something_else_is_called_what_it_is) {
  EXPECT_EQ(refusal(dir.path()), "cannot read " + dir.path() + ": it is a directory, not a file");
  EXPECT_EQ(refusal("/dev/null"), "cannot read /dev/null: it is a device, not a file");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal(path), "cannot read " + path + ": it is a FIFO, not a file");
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = dir.path() + "/socket";
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  std::copy(name.begin(), name.end(), address.sun_path);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(refusal(name), "cannot read " + name + ": it is a socket, not a file");
}

TEST_F(TextFile, that_must_be_secret_may_be_read_by_its_owner_alone) {
  std::ofstream(path) << "text";
  for (const mode_t open_to : {0640U, 0604U, 0620U}) {
    ASSERT_EQ(chmod(path.c_str(), open_to), 0);
    EXPECT_EQ(read_text_file(path, FileTrust::kSecret).error().text,
              "cannot read " + path + ": others may read it: chmod 600 it");
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(read_text_file(path, FileTrust::kSecret).ok());
}

TEST_F(TextFile, that_everybody_may_write_is_nobodys_own) {
  std::ofstream(path) << "text";
  ASSERT_EQ(chmod(path.c_str(), 0646), 0);
  EXPECT_EQ(read_text_file(path, FileTrust::kOwn).error().text,
            "cannot read " + path + ": everybody may write it: chmod o-w it");
  EXPECT_TRUE(read_text_file(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0664), 0);
  EXPECT_TRUE(read_text_file(path, FileTrust::kOwn).ok());
}

TEST_F(TextFile, of_another_user_is_not_trusted_unless_that_is_root) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make files of other users";
  constexpr uid_t kAnother = 1234;
  constexpr uid_t kNobody = 65534;
  std::ofstream(path) << "text";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(seteuid(kNobody), 0);
  EXPECT_TRUE(read_text_file(path, FileTrust::kOwn).ok()) << "root's";
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(chown(path.c_str(), kAnother, kAnother), 0);
  EXPECT_TRUE(read_text_file(path, FileTrust::kOwn).ok()) << "root may use it";
  ASSERT_EQ(seteuid(kNobody), 0);
  const Result<std::string> refused = read_text_file(path, FileTrust::kOwn);
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "cannot read " + path + ": it belongs to user 1234, not to you");
}

}  // namespace
}  // namespace weft::test
