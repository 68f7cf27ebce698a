#include "train/measure.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <set>

#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "kernels/error.h"
#include "probes/probe_set.h"
#include "train/config_file.h"

namespace nascent {
namespace {

// The file, with what had to be converted.
class Stored {
 public:
  explicit Stored(const std::filesystem::path& path) : path_(path.string()), file_(path_) {}

  const std::vector<std::string>& names() const { return file_.names(); }
  bool has(const std::string& name) const { return file_.has(name); }
  Error refuse(const std::string& name, const std::string& found, const std::string& expected) const {
    return input_error("{}: {} {}, expected {}", path_, name, found, expected);
  }

  // A matrix; bf16 becomes f32, which holds it exactly.
  View matrix(const std::string& name) {
    const SafetensorsFile::Entry& entry = file_.entry(name);
    if (entry.shape.rank() != 2 || entry.shape.size() == 0)
      throw refuse(name, "has shape " + entry.shape.text(), "[N, d], neither of them 0");
    if (entry.dtype == "F32" || entry.dtype == "F64") return file_.at(name);
    if (entry.dtype != "BF16") throw refuse(name, "is of type " + entry.dtype, "F32, F64 or BF16");
    auto& values = floats_.emplace_back(static_cast<std::size_t>(entry.shape.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half;
      std::memcpy(&half, entry.bytes.data() + 2 * i, 2);
      const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
      std::memcpy(&values[i], &bits, 4);
    }
    return {values.data(), DType::kF32, entry.shape};
  }

  // Integers from `least` to `most`; none where there is no such tensor.
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t least, std::int64_t most) const {
    if (!has(name)) return {};
    const SafetensorsFile::Entry& entry = file_.entry(name);
    if (entry.shape.rank() != 1) throw refuse(name, "has shape " + entry.shape.text(), "one dimension");
    std::vector<std::int64_t> values;
    const auto read = [&]<class T>(T) {
      for (std::int64_t i = 0; i < entry.shape.size(); ++i) {
        T value;
        std::memcpy(&value, entry.bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
        values.push_back(static_cast<std::int64_t>(value));
        if (values.back() < least || values.back() > most)
          throw refuse(fmt::format("{}[{}]", name, i), fmt::format("is {}", values.back()),
                       fmt::format("an integer from {} to {}", least, most));
      }
    };
    if (entry.dtype == "I64") {
      read(std::int64_t{});
    } else if (entry.dtype == "I32") {
      read(std::int32_t{});
    } else if (entry.dtype == "U16") {
      read(std::uint16_t{});
    } else {
      throw refuse(name, "is of type " + entry.dtype, "I64, I32 or U16");
    }
    return values;
  }

  // One integer for each of n positions, or none.
  std::vector<std::int32_t> labels(const std::string& name, std::int64_t n, std::int64_t least,
                                   std::int64_t most) const {
    const std::vector<std::int64_t> values = integers(name, least, most);
    if (!values.empty() && static_cast<std::int64_t>(values.size()) != n)
      throw refuse(name, fmt::format("has {} elements", values.size()), fmt::format("{}, one a position", n));
    return {values.begin(), values.end()};
  }

 private:
  std::string path_;
  SafetensorsFile file_;
  std::deque<std::vector<float>> floats_;
};

// embed, then the blocks in order, then what follows them.
std::int64_t place_of(const std::string& tap) {
  if (tap == "embed") return -1;
  if (!tap.starts_with("blocks.")) return std::numeric_limits<std::int64_t>::max();
  return std::strtoll(tap.c_str() + 7, nullptr, 10);
}

std::vector<std::string> taps_of(const Stored& file) {
  std::set<std::string> names;
  for (const std::string& name : file.names()) {
    if (name.starts_with("h:") || name.starts_with("g:")) names.insert(name.substr(2));
  }
  std::vector<std::string> taps(names.begin(), names.end());
  std::ranges::stable_sort(taps, {}, place_of);
  return taps;
}

std::unique_ptr<Probe> probe_named(const std::string& name) {
  std::vector<std::string> names;
  for (const ProbeKind& kind : probe_kinds()) {
    std::unique_ptr<Probe> probe = kind.make();
    if (!probe->needs_statistics() || probe->needs_updates()) continue;  // others need a model
    if (kind.name == name) return probe;
    names.push_back(kind.name);
  }
  throw input_error("--probe {}: expected one of {}", name, fmt::join(names, ", "));
}

void local_settings(Settings& s, LocalChoice& local) {
  s.choice("local", local.of, {"off", "token", "knn"}, "bases of neighbourhoods");
  s.key("min_count", local.min_count, 0, kNoLimit, "local = token: members of a neighbourhood; 0: twice the rank");
  s.key("k", local.k, 1, kNoLimit, "local = knn: nearest others of a centre");
  s.key("centres", local.centres, 1, kNoLimit, "local = knn: neighbourhoods");
}

void import_bases(const std::filesystem::path& path, Stored& file, Panel& panel) {
  for (const std::string& name : file.names()) {
    if (!name.starts_with("basis:")) continue;
    const std::size_t colon = name.find(':', 6);
    const std::string basis = name.substr(6, colon - 6);
    TapStatistics* tap = colon == std::string::npos ? nullptr : panel.find(name.substr(colon + 1));
    if (!tap) throw file.refuse(name, "is of no tap with h:TAP or g:TAP here", "basis:NAME:TAP");
    if (basis == "current") continue;
    const View view = file.matrix(name);
    DenseMatrix q(view.rows(), view.cols());
    dispatch(view.dtype(), [&]<class T>() { std::copy_n(view.data<T>(), view.size(), q.data.begin()); });
    check_basis(q, tap->tap().width, path.string() + ": " + name);
    tap->bases().import(basis, std::move(q));
  }
}

}  // namespace

Records measure(const MeasureOptions& options) {
  const std::unique_ptr<Probe> probe = probe_named(options.probe);
  LookKeys look;
  Panel panel;
  std::vector<std::int64_t> special_set;
  ConfigReader reader(options.set);
  look.settings(reader);
  local_settings(reader, panel.choice.local);
  reader.key("special", special_set, 0, std::numeric_limits<std::int32_t>::max(), "types without a rank");
  probe->settings(reader);
  reader.refuse_unknown();

  Stored file(options.file);
  const std::vector<std::string> taps = taps_of(file);
  if (taps.empty()) throw input_error("{}: no tensor h:TAP or g:TAP [N, d]", options.file.string());
  panel.detail = panel.exact = true;
  panel.choice.basis = {look.rank, look.explained, false};
  panel.choice.sink = look.sink;
  panel.choice.local.rank = look.rank;

  std::int64_t n = -1;
  for (const std::string& name : taps) {
    View arrays[2];
    Tap tap;
    tap.name = name;
    for (int i = 0; i < 2; ++i) {
      const std::string tensor = (i == 0 ? "h:" : "g:") + name;
      if (!file.has(tensor)) continue;
      arrays[i] = file.matrix(tensor);
      if (n < 0) n = arrays[i].rows();
      const std::int64_t width = tap.width == 0 ? arrays[i].cols() : tap.width;
      if (arrays[i].shape() != Shape({n, width}))
        throw file.refuse(tensor, "has shape " + arrays[i].shape().text(), Shape({n, width}).text());
      tap.width = width;
    }
    panel.taps.push_back(std::make_unique<TapStatistics>(tap, DType::kF64, 0, panel.choice.basis));
    panel.taps.back()->show(arrays[0], arrays[1]);
  }
  import_bases(options.file, file, panel);

  const std::vector<std::int64_t> counts = file.integers("counts", 0, kNoLimit);
  const std::int64_t most =
      counts.empty() ? std::numeric_limits<std::int32_t>::max() : static_cast<std::int64_t>(counts.size()) - 1;
  if (special_set.empty()) special_set = file.integers("special", 0, most);
  const std::vector<std::int32_t> special(special_set.begin(), special_set.end());
  FrequencyBins bins;
  if (!counts.empty()) {
    bins = frequency_bins(counts, look.edges, look.equal_mass, special);
    panel.choice.bins = &bins;
  }
  const std::int64_t any = std::numeric_limits<std::int32_t>::max();
  panel.positions =
      PositionLabels::of_rows(n, file.labels("token", n, 0, most), file.labels("target", n, kNoTarget, most),
                              file.labels("sequence", n, 0, any));
  if (panel.choice.local.of == "token" && panel.positions.token().empty())
    throw input_error("{}: local = token needs the tensor token [N]", options.file.string());

  Stream s;
  FitRequest request;
  request.birth = false;
  request.full = true;
  panel.sum_up(s, request);
  Records records;
  Recorder recorder(records, options.probe);
  probe->report(s, panel, recorder);
  return records;
}

namespace {

std::string number_text(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "null"; }

std::string json_text(const Record& r) {
  std::string labels;
  for (const auto& [name, value] : labels_of(r.labels))
    labels += fmt::format("{}{}: {}", labels.empty() ? "" : ", ", json_quoted(name), json_quoted(value));
  std::string text =
      fmt::format("{{\"probe\": {}, \"tap\": {}, \"key\": {}, \"labels\": {{{}}}, \"value\": {}", json_quoted(r.probe),
                  json_quoted(r.tap), json_quoted(r.key), labels, number_text(r.value));
  if (!r.reason.empty()) text += ", \"reason\": " + json_quoted(r.reason);
  if (r.n) text += fmt::format(", \"n\": {}", *r.n);
  if (r.se) text += ", \"se\": " + number_text(r.se);
  return text + "}";
}

}  // namespace

void measure_file(const MeasureOptions& options) {
  const Records records = measure(options);
  if (options.json.empty()) {
    fmt::print("{:<28} {:<30} {:<40} {:>14} {:>12} {:>8}\n", "tap", "key", "labels", "value", "se", "n");
    for (const Record& r : records) {
      const std::string value = r.value ? fmt::format("{:.8g}", *r.value) : r.reason,
                        se = r.se ? fmt::format("{:.3g}", *r.se) : "";
      fmt::print("{:<28} {:<30} {:<40} {:>14} {:>12} {:>8}\n", r.tap, r.key, r.labels, value, se, r.n.value_or(0));
    }
    return;
  }
  std::string text;
  for (const Record& r : records) text += (text.empty() ? "[" : ",\n ") + json_text(r);
  write_file(options.json.string(), (text.empty() ? "[" : text) + "]\n");
}

}  // namespace nascent
