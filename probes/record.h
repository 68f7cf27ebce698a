// What a probe reports: a record is probe, tap, key, labels, step, value or missing, n, se.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nascent {

struct Record {
  std::string probe;              // "moments"
  std::string tap;                // "blocks.0.resid_post", a parameter's name, or empty
  std::string key;                // "isoscore"
  std::string labels;             // "basis=init,of=gradient": by name, defaults left out
  std::optional<double> value;    // nothing: undefined here, and `reason` says why
  std::string reason;             // with a value: "retrospective" where it was computed at a later step
  std::optional<std::int64_t> n;  // how many positions (or elements) it is made of
  std::optional<double> se;       // jackknife over sequences, where the measure has one
};

// Labels by name; those with an empty text are their defaults and left out. {{"of", "gradient"}} -> "of=gradient".
using Labels = std::map<std::string, std::string>;
std::string text_of(const Labels& labels);
Labels labels_of(const std::string& text);  // the way back

using Records = std::vector<Record>;

}  // namespace nascent
