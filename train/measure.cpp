#include "train/measure.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "kernels/error.h"
#include "probes/probe_set.h"
#include "train/config_file.h"

namespace nascent {
namespace {

class Stored {
 public:
  explicit Stored(const std::filesystem::path& path) : path_(path.string()), file_(path_) {}

  const std::vector<std::string>& names() const { return file_.names(); }
  bool has(const std::string& name) const { return file_.has(name); }
  Error refuse(const std::string& name, const std::string& found, const std::string& expected) const {
    return input_error("{}: {} {}, expected {}", path_, name, found, expected);
  }

  // A matrix that is not empty; sizes: what they are called, "[N, d]".
  View matrix(const std::string& name, const char* sizes) {
    const Shape& shape = file_.entry(name).shape;
    if (shape.rank() != 2 || shape.size() == 0)
      throw refuse(name, "has shape " + shape.text(), fmt::format("{}, neither of them 0", sizes));
    return file_.floats(name);
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
    if (has(name) && static_cast<std::int64_t>(values.size()) != n)
      throw refuse(name, fmt::format("has {} elements", values.size()), fmt::format("{}, one a position", n));
    return {values.begin(), values.end()};
  }

 private:
  std::string path_;
  SafetensorsFile file_;
};

// embed, then block after block in the order of the forward pass, then what follows them.
std::pair<std::int64_t, std::ptrdiff_t> place_of(const std::string& tap) {
  static constexpr std::array<std::string_view, 9> kOrder = {"resid_pre", "ln1.normalized", "attn_out",
                                                             "mixer_out", "resid_mid",      "ln2.normalized",
                                                             "mlp.post",  "mlp_out",        "resid_post"};
  if (tap == "embed") return {-1, 0};
  if (!tap.starts_with("blocks.")) return {std::numeric_limits<std::int64_t>::max(), 0};
  const std::size_t dot = std::min(tap.find('.', 7), tap.size() - 1);
  return {std::strtoll(tap.c_str() + 7, nullptr, 10), std::ranges::find(kOrder, tap.substr(dot + 1)) - kOrder.begin()};
}

std::vector<std::string> taps_of(const Stored& file) {
  std::set<std::string> names;
  for (const std::string& name : file.names()) {
    if (!name.starts_with("h:") && !name.starts_with("g:")) continue;
    if (name.size() == 2) throw file.refuse(name, "names no tap", "h:TAP or g:TAP");
    names.insert(name.substr(2));
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

// The arrays of every tap; all have as many rows, which is returned.
std::int64_t show_arrays(Stored& file, Panel& panel) {
  std::string first;  // the tensor that says how many rows
  std::int64_t n = 0;
  for (const std::string& name : taps_of(file)) {
    View arrays[2];
    Tap tap;
    tap.name = name;
    for (int i = 0; i < 2; ++i) {
      const std::string tensor = (i == 0 ? "h:" : "g:") + name;
      if (!file.has(tensor)) continue;
      const View array = arrays[i] = file.matrix(tensor, "[N, d]");
      if (first.empty()) {
        first = tensor;
        n = array.rows();
      }
      if (tap.width == 0) tap.width = array.cols();
      if (array.rows() != n)
        throw file.refuse(tensor, "has shape " + array.shape().text(), fmt::format("{} rows as {}", n, first));
      if (array.cols() != tap.width)
        throw file.refuse(tensor, "has shape " + array.shape().text(), Shape({n, tap.width}).text() + " as h:" + name);
    }
    panel.taps.push_back(std::make_unique<TapStatistics>(tap, DType::kF64, 0, panel.choice.basis));
    panel.taps.back()->show(arrays[0], arrays[1]);
  }
  return n;
}

void import_bases(const std::filesystem::path& path, Stored& file, Panel& panel) {
  for (const std::string& name : file.names()) {
    if (!name.starts_with("basis:")) continue;
    const std::size_t colon = name.find(':', 6);
    if (colon == std::string::npos) throw file.refuse(name, "names no tap", "basis:NAME:TAP");
    const std::string basis = name.substr(6, colon - 6), at = name.substr(colon + 1);
    // The name becomes a label: basis=NAME.
    if (basis.empty() || basis.find_first_of(",=") != std::string::npos)
      throw file.refuse(name, fmt::format("calls the basis \"{}\"", basis), "a name without , and =");
    if (basis == panel.choice.local.of)
      throw file.refuse(name, "is called as the bases of neighbourhoods are", "another name with local = " + basis);
    TapStatistics* tap = panel.find(at);
    if (!tap) throw file.refuse(name, fmt::format("is of a tap without h:{} and g:{}", at, at), "one that is here");
    if (basis == "current") continue;
    const View view = file.matrix(name, "[d, r]");
    DenseMatrix q(view.rows(), view.cols());
    dispatch(view.dtype(), [&]<class T>() { std::copy_n(view.data<T>(), view.size(), q.data.begin()); });
    check_basis(q, tap->tap().width, path.string() + ": " + name);
    tap->bases().import(basis, std::move(q));
  }
}

// What the positions are; the bins of their types come to lie in `bins`. special: in place of the file's.
void label_positions(const Stored& file, std::int64_t n, const LookKeys& look, std::vector<std::int64_t> special,
                     Panel& panel, FrequencyBins& bins) {
  const std::int64_t any = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int64_t> counts = file.integers("counts", 0, kNoLimit);
  if (file.has("counts") && counts.empty()) throw file.refuse("counts", "is empty", "a count for each type");
  const std::int64_t most = counts.empty() ? any : static_cast<std::int64_t>(counts.size()) - 1;
  for (const std::int64_t id : special) {
    if (id > most)
      throw file.refuse("special", fmt::format("is {} by --set", id), fmt::format("ids from 0 to {}", most));
  }
  if (special.empty()) special = file.integers("special", 0, most);
  if (counts.empty()) special.clear();
  // Also without counts: the edges are checked there.
  bins = frequency_bins(counts, look.edges, look.equal_mass, std::vector<std::int32_t>(special.begin(), special.end()));
  if (!counts.empty()) panel.choice.bins = &bins;
  panel.positions =
      PositionLabels::of_rows(n, file.labels("token", n, 0, most), file.labels("target", n, kNoTarget, most),
                              file.labels("sequence", n, 0, any));
}

}  // namespace

Records measure(const MeasureOptions& options) {
  const std::unique_ptr<Probe> probe = probe_named(options.probe);
  LookKeys look;
  Panel panel;
  std::vector<std::int64_t> special;
  ConfigReader reader(options.set);
  look.settings(reader);
  local_settings(reader, panel.choice.local);
  reader.key("special", special, 0, std::numeric_limits<std::int32_t>::max(), "types without a rank");
  probe->settings(reader);
  reader.refuse_unknown();
  panel.detail = panel.exact = true;
  panel.choice.basis = {look.rank, look.explained, false};
  panel.choice.sink = look.sink;
  panel.choice.local.rank = look.rank;

  Stored file(options.file);
  const std::int64_t n = show_arrays(file, panel);
  if (n == 0) throw input_error("{}: no tensor h:TAP or g:TAP [N, d]", options.file.string());
  import_bases(options.file, file, panel);
  FrequencyBins bins;
  label_positions(file, n, look, special, panel, bins);
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
  if (records.empty()) {
    throw input_error("{}: nothing here for --probe {}, expected {}", options.file.string(), options.probe,
                      options.probe == "gradient_energy" ? "g:TAP and a basis (h:TAP or basis:NAME:TAP)" : "h:TAP");
  }
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

// One line a record, columns as wide as what they hold.
void print_table(const Records& records) {
  std::vector<std::array<std::string, 7>> lines = {{"tap", "key", "labels", "value", "se", "n", ""}};
  for (const Record& r : records)
    lines.push_back({r.tap, r.key, r.labels, r.value ? fmt::format("{:.8g}", *r.value) : "-",
                     r.se ? fmt::format("{:.3g}", *r.se) : "", r.n ? std::to_string(*r.n) : "", r.reason});
  std::array<std::size_t, 6> width{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < width.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  for (const auto& [tap, key, labels, value, se, n, reason] : lines) {
    fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}{}{}\n", tap, width[0], key, width[1], labels, width[2],
               value, width[3], se, width[4], n, width[5], reason.empty() ? "" : "  ", reason);
  }
}

}  // namespace

void measure_file(const MeasureOptions& options) {
  if (options.json.empty()) return print_table(measure(options));
  AtomicFile file(options.json.string());  // first: measuring may take long, and what cannot be written is known now
  std::string text;
  for (const Record& r : measure(options)) text += (text.empty() ? "[" : ",\n ") + json_text(r);
  file.append((text.empty() ? "[" : text) + "]\n");
  file.commit();
}

}  // namespace nascent
