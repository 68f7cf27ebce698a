#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <vector>

#include "data/tokenizer.h"
#include "kernels/error.h"
#include "kernels/philox.h"
#include "model/hugging_face.h"
#include "train/run_folder.h"

namespace nascent {
namespace {

std::filesystem::path checkpoint_of(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / "config.json")) return path;
  const RunFolder run = RunFolder::open(path);
  const auto steps = run.checkpoint_steps();
  if (steps.empty()) throw input_error("{}: the run has no checkpoint yet", path.string());
  return run.checkpoint(steps.back());
}

// Draws from the softmax of logits / temperature over the k largest; `uniform` in (0, 1).
std::int32_t draw(const std::vector<double>& logits, double temperature, std::int64_t k, double uniform) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto larger = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (temperature == 0) return *std::min_element(ids.begin(), ids.end(), larger);
  std::sort(ids.begin(), ids.end(), larger);
  if (k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(k)));
  const double most = logits[static_cast<std::size_t>(ids.front())];
  const auto weight = [&](std::int32_t id) {
    return std::exp((logits[static_cast<std::size_t>(id)] - most) / temperature);
  };
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  double left = uniform * total;
  for (const std::int32_t id : ids) {
    left -= weight(id);
    if (left <= 0) return id;
  }
  return ids.back();
}

}  // namespace

void generate(const GenerateOptions& options) {
  if (!(options.temperature >= 0)) throw input_error("temperature is {}, expected 0 or more", options.temperature);
  const std::filesystem::path folder = checkpoint_of(options.path);
  const auto model = load_pretrained(folder);
  const std::filesystem::path tokenizer_path = folder / "tokenizer.model";
  if (!std::filesystem::exists(tokenizer_path))
    throw input_error("{}: no tokenizer.model in this checkpoint", folder.string());
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
  const std::int64_t context = model->spec().context, vocab = model->spec().vocab;
  if (tokenizer.vocab_size() > vocab) {
    throw input_error("{}: its tokenizer has {} tokens, the model {}", folder.string(), tokenizer.vocab_size(), vocab);
  }
  std::vector<std::int32_t> ids = tokenizer.encode(options.prompt);
  if (ids.empty()) ids.push_back(std::max(tokenizer.bos_id(), 0));

  Stream stream;
  model->plan(1, context, false, nullptr);
  const auto window = stream.scratch(DType::kI32, {1, context});
  const auto row = stream.scratch(model->parameters().begin()->value.dtype(), {1, vocab});
  const Random random(static_cast<std::uint64_t>(options.seed), "generate");
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    // The last tokens that fit; what stands behind them cannot be seen by them.
    const auto length = std::min<std::int64_t>(static_cast<std::int64_t>(ids.size()), context);
    std::fill_n(window.data<std::int32_t>(), context, 0);
    std::copy(ids.end() - length, ids.end(), window.data<std::int32_t>());
    model->forward(stream, window);
    model->logits(stream, row, length - 1);
    std::vector<double> logits(static_cast<std::size_t>(tokenizer.vocab_size()));
    dispatch((*row).dtype(), [&]<class T>() { std::copy_n(row.data<T>(), logits.size(), logits.begin()); });
    if (!std::ranges::all_of(logits, [](double x) { return std::isfinite(x); }))
      throw input_error("{}: the model gives logits that are not finite", folder.string());
    ids.push_back(draw(logits, options.temperature, options.top_k, random.uniform(static_cast<std::uint64_t>(i))));
  }
  fmt::print("{}\n", tokenizer.decode(ids));
}

}  // namespace nascent
