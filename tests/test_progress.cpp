#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/catch.h"
#include "train/progress.h"

using namespace nascent;

namespace {

StepProgress at(std::int64_t step) { return {step, 2.5, 5000, 0.5, 0.02}; }

}  // namespace

TEST_CASE("progress: a line says step, loss, tokens per second, time left and the share of probes") {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(7212, file);
    progress.update(at(1));
    CHECK(progress.text() == "step 1/7212  loss 2.5000  10.0k tokens/s  ETA 1:00:06  probes 4.0%");
    progress.update(at(7100));
    CHECK(progress.text() == "step 7100/7212  loss 2.5000  10.0k tokens/s  ETA 0:56  probes 4.0%");
  }
  std::fclose(file);
}

TEST_CASE(
    "progress: away from a terminal, the first and the last step have a line and those at once between have "
    "none") {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(100, file);
    for (std::int64_t step = 1; step <= 100; ++step) progress.update(at(step));
    progress.clear();
  }
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  CHECK(text ==
        "step 1/100  loss 2.5000  10.0k tokens/s  ETA 0:50  probes 4.0%\n"
        "step 100/100  loss 2.5000  10.0k tokens/s  ETA 0:00  probes 4.0%\n");
}

TEST_CASE("progress: on a terminal the line fits its width and is taken away before other output") {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(master >= 0);
  REQUIRE(::grantpt(master) == 0);
  REQUIRE(::unlockpt(master) == 0);
  std::FILE* terminal = std::fopen(::ptsname(master), "r+");
  REQUIRE(terminal);
  winsize size{};
  size.ws_col = 20;
  REQUIRE(::ioctl(master, TIOCSWINSZ, &size) == 0);
  ::setenv("TERM", "xterm", 1);
  {
    Progress progress(100, terminal);
    progress.update(at(1));
    progress.update(at(2));  // too soon to be seen
    progress.clear();
    progress.update(at(100));
  }
  std::string text;
  for (char c = 0; c != '\n' && ::read(master, &c, 1) == 1;) text += c;
  std::fclose(terminal);
  ::close(master);
  CHECK(text == "\rstep 1/100  loss 2.\x1b[K\r\x1b[K\rstep 100/100  loss \x1b[K\r\n");
}
