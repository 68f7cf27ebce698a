// How long the window of the `early` basis stays open.
#pragma once

#include <cstdint>
#include <string>

namespace nascent {

class EarlyWindow {
 public:
  static constexpr const char* kRules =
      "\"fraction F\" of the run's steps, \"steps N\", \"tokens N\", \"loss unigram\" (until the training loss is "
      "below "
      "that of the corpus' unigram distribution), or \"never\" (no such basis)";

  // Throws (input) and names the key for another rule.
  static EarlyWindow parse(const std::string& rule, const std::string& key = "probes.early.until");

  struct Now {
    std::int64_t step = 0, steps = 0;  // of the run
    std::int64_t tokens = 0;           // trained on before this step
    double loss = 0, unigram = 0;      // of this step; the unigram's, in nats
  };
  bool exists() const { return kind_ != Kind::kNever; }
  // Whether this step lies behind the window. A loss may rise again: who asks remembers the first time.
  bool closed(const Now& now) const;

 private:
  enum class Kind { kNever, kFraction, kSteps, kTokens, kLoss } kind_ = Kind::kNever;
  double number_ = 0;
};

}  // namespace nascent
