#include "tests/bench/table.h"

#include <cmath>
#include <fmt/format.h>

namespace nascent::bench {
namespace {

constexpr char kRow[] = "{:40} {:27} {:>10} {:>9} {:>9} {:>9}  {}\n";
constexpr char kPairRow[] = "{:40} {:27} {:>10} {:>10} {:>9}\n";

class Cells {
 public:
  explicit Cells(bool marked) : mark_(marked ? "~" : "") {}
  std::string milliseconds(double seconds) const { return fmt::format("{}{:.3f}", mark_, 1e3 * seconds); }
  // Three digits, or as many as stand before the point; "-" for what is not known.
  std::string number(double x, const char* unit = "") const {
    const int decimals = x < 10 ? 2 : x < 100 ? 1 : 0;
    return std::isfinite(x) ? fmt::format("{}{:.{}f}{}", mark_, x, decimals, unit) : "-";
  }

 private:
  const char* mark_;
};

// What the figures of one size stand under.
std::string heading(const Size& z) { return fmt::format("{}: {} x {} tokens, width {}", z.name, z.b, z.t, z.c); }

}  // namespace

void print(const std::vector<Figure>& figures, const Speed& speed, bool marked) {
  const Cells cells(marked);
  const Size* size = nullptr;
  for (const Figure& f : figures) {
    if (f.of.size != size) {
      size = f.of.size;
      fmt::print("\n");
      fmt::print(kRow, heading(*size), "shape", "ms", "GFLOP/s", "GB/s", "of peak", "bound");
    }
    const Roof least = roof(speed, f.work);
    const bool known = !std::isnan(f.work.flop);
    fmt::print(kRow, f.of.line(), f.shape, cells.milliseconds(f.seconds), cells.number(f.work.flop / f.seconds * 1e-9),
               cells.number(f.work.bytes() / f.seconds * 1e-9),
               cells.number(known ? 100 * least.seconds / f.seconds : NAN, "%"),
               !known         ? "-"
               : least.memory ? "memory"
                              : "compute");
  }
}

void print_pairs(const std::vector<Figure>& figures, bool marked) {
  const Cells cells(marked);
  const Size* size = nullptr;
  for (const Figure& f : figures) {
    if (!(f.bare_seconds > 0)) continue;
    if (f.of.size != size) {
      size = f.of.size;
      fmt::print("\n");
      fmt::print(kPairRow, heading(*size), "against bare oneDNN", "ms", "oneDNN ms", "ratio");
    }
    fmt::print(kPairRow, f.of.line(), f.shape, cells.milliseconds(f.seconds), cells.milliseconds(f.bare_seconds),
               cells.number(f.seconds / f.bare_seconds));
  }
}

}  // namespace nascent::bench
