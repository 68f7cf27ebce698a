// The worked cases of tests/cases (format and tolerances: the README there), and the JSON that `nascent measure` writes.
#include <array>
#include <cmath>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/safetensors.h"
#include "tests/catch.h"
#include "tests/memory.h"
#include "tests/temporary.h"
#include "train/measure.h"

using namespace nascent;
using nascent::test::Memory;
using nlohmann::json;

namespace {

std::string case_path(const std::string& name) { return NASCENT_SOURCE_DIR "/tests/cases/" + name; }

Tensor tensor_of(Memory& memory, const json& array, DType floats) {
  const auto dims = array.at("shape").get<std::vector<std::int64_t>>();
  const Shape shape = dims.size() == 1 ? Shape{dims[0]} : Shape{dims.at(0), dims.at(1)};
  const bool integers = array.at("dtype") == "i64";
  const Tensor t = memory.zeros(shape, integers ? DType::kI32 : floats);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const json& element = array.at("data").at(static_cast<std::size_t>(i));
    if (integers) {
      t.data<std::int32_t>()[i] = element.get<std::int32_t>();
    } else {
      Memory::set(t, i, element.get<double>());
    }
  }
  return t;
}

// The inputs of a case as files of a folder, and what `measure` is asked of them.
MeasureOptions options_of(const json& one, const std::string& probe, DType floats, const TemporaryFolder& folder) {
  Memory memory;
  std::vector<NamedView> inputs, c0;
  for (const auto& [name, array] : one.at("inputs").items()) {
    if (name != "c0") inputs.push_back({name, tensor_of(memory, array, floats)});
  }
  MeasureOptions options{folder.path / "inputs.safetensors", probe, {}, {}};
  write_safetensors(options.file.string(), inputs);
  for (const auto& [key, value] : one.at("set").items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (key == "c0" && text == "file") {
      const Tensor t = tensor_of(memory, one.at("inputs").at("c0"), DType::kF64);
      for (const NamedView& input : inputs) c0.push_back({input.name, t});
      write_safetensors(text = folder.file("c0.safetensors"), c0);
    }
    options.set.push_back(key + "=" + text);
  }
  return options;
}

struct Tolerance {
  bool f32 = false;
  double value = f32 ? 2e-4 : 1e-9, se = f32 ? 1e-2 : 1e-6;
};

// tap, key, labels
using Name = std::array<std::string, 3>;

bool value_fits(const Record* record, const json& want, const Tolerance& tolerance) {
  const auto either = [&](const char* for_floats, const char* key) {
    return tolerance.f32 && want.contains(for_floats) ? want.at(for_floats) : want.value(key, json());
  };
  const json value = either("value_f32", "value"), abs = either("abs_f32", "abs");
  if (value.is_null() || !record || !record->value) return value.is_null() && (!record || !record->value);
  const double wanted = value.get<double>();
  return std::abs(*record->value - wanted) <=
         tolerance.value * std::abs(wanted) + (abs.is_null() ? 0 : abs.get<double>());
}

bool se_fits(const Record* record, const json& want, const Tolerance& tolerance) {
  if (!want.contains("se")) return true;
  const auto se = want.at("se").get<double>();
  return record && record->se && std::abs(*record->se - se) <= tolerance.se * se;
}

void check_records(const std::string& where, const Records& records, const std::string& probe, const json& expected,
                   const Tolerance& tolerance) {
  std::map<Name, const Record*> found;
  for (const Record& r : records) {
    const Name name = {r.tap, r.key, r.labels};
    INFO(where << ": " << fmt::format("{}", name));
    CHECK(r.probe == probe);
    CHECK((r.value ? std::isfinite(*r.value) : !r.reason.empty()));
    CHECK(found.emplace(name, &r).second);  // none twice
  }
  std::size_t compared = 0;
  for (const json& group : expected) {
    const std::string labels = text_of(group.at("labels").get<Labels>());
    for (const auto& [key, value] : group.at("values").items()) {
      const Name name = {group.at("tap").get<std::string>(), key, labels};
      const json want = value.is_object() ? value : json{{"value", value}};
      const auto at = found.find(name);
      const Record* record = at == found.end() ? nullptr : at->second;
      INFO(where << ": " << fmt::format("{}", name) << "\nwant " << want.dump() << "\ngot "
                 << (!record         ? "no record"
                     : record->value ? fmt::format("{} +- {}", *record->value, record->se.value_or(0))
                                     : record->reason));
      CHECK(value_fits(record, want, tolerance));
      CHECK(se_fits(record, want, tolerance));
      ++compared;
    }
  }
  INFO(where);
  CHECK(compared > 0);
}

void check_cases(const std::string& probe) {
  json cases = json::parse(read_file(case_path(probe + ".json"))).at("cases");
  std::map<std::string, json> arrays;  // by case and name
  for (json& one : cases) {
    const auto name = one.at("name").get<std::string>();
    for (auto& [tensor, array] : one.at("inputs").items()) {
      if (array.is_string()) array = arrays.at(array.get<std::string>() + " " + tensor);
      arrays[name + " " + tensor] = array;
    }
    for (const bool f32 : {false, true}) {
      const TemporaryFolder folder;
      const MeasureOptions options = options_of(one, probe, f32 ? DType::kF32 : DType::kF64, folder);
      check_records(fmt::format("{}, {} in {}", probe, name, f32 ? "float" : "double"), measure(options), probe,
                    one.at("expected"), {f32});
    }
  }
  CHECK(cases.size() > 10);
}

std::vector<std::string> settings_of(const json& set) {
  std::vector<std::string> assignments;
  for (const auto& [key, value] : set.items()) assignments.push_back(key + "=" + value.dump());
  return assignments;
}

}  // namespace

TEST_CASE("moments of the worked cases, from double and from float arrays") { check_cases("moments"); }

TEST_CASE("tangent bases of the worked cases, from double and from float arrays") { check_cases("tangent"); }

TEST_CASE("gradient energy of the worked cases, from double and from float arrays") { check_cases("gradient_energy"); }

TEST_CASE("measure reads files that others wrote in f64, f32 and bf16, with i64 labels") {
  const json runs = json::parse(read_file(case_path("measure.json"))).at("runs");
  for (const json& run : runs) {
    const auto file = run.at("file").get<std::string>(), probe = run.at("probe").get<std::string>();
    const Records records = measure({case_path(file), probe, settings_of(run.at("set")), {}});
    const bool f32 = SafetensorsFile(case_path(file)).entry("h:blocks.0.resid_post").dtype != "F64";
    check_records(file + ", " + probe, records, probe, run.at("expected"), {f32});
  }
  CHECK(runs.size() == 11);
}

TEST_CASE(
    "measure writes every record as JSON: a value to its last digit or null with a reason, n, and se if there is one") {
  const TemporaryFolder folder;
  std::size_t values = 0, missing = 0, errors = 0;
  for (const char* probe : {"moments", "tangent", "gradient_energy"}) {
    const MeasureOptions options{case_path("measure_labels.safetensors"), probe, {"rank=2"}, folder.path / "out.json"};
    measure_file(options);
    const json written = json::parse(read_file(options.json.string()));
    const Records records = measure(options);
    REQUIRE(written.size() == records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      const Record& r = records[i];
      json want = {{"probe", r.probe}, {"tap", r.tap},    {"key", r.key}, {"labels", labels_of(r.labels)},
                   {"value", nullptr}, {"n", r.n.value()}};
      if (r.value) want["value"] = *r.value;
      if (!r.value) want["reason"] = r.reason;
      if (r.se) want["se"] = *r.se;
      CHECK(written[i] == want);
      ++(r.value ? values : missing);
      errors += r.se.has_value();
    }
  }
  CHECK(values > 0);
  CHECK(missing > 0);
  CHECK(errors > 0);
}
