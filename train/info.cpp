#include "train/info.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "kernels/build.h"
#include "kernels/device.h"
#include "kernels/error.h"
#include "kernels/stream.h"
#include "model/hugging_face.h"
#include "train/checkpoint.h"
#include "train/metrics_db.h"
#include "train/run_folder.h"
#include "train/summary.h"

namespace nascent {
namespace {

void print_program() {
  fmt::print("nascent {}: {}, SQLite {}\n", version(), build_description(), sqlite3_libversion());
  fmt::print("{} CPU threads; {}; families: {}\n", Stream().threads(), status_of(Device::kCuda).text,
             fmt::join(family_names(), ", "));
}

void print_model(const std::filesystem::path& folder) {
  const auto model = load_pretrained(folder);
  const TransformerSpec& spec = model->spec();
  fmt::print("{}: family {}, {} parameters; vocab {}, context {}, width {}, layers {}, heads {}, hidden {}\n",
             folder.string(), spec.family, model->parameters().count(), spec.vocab, spec.context, spec.width,
             spec.layers, spec.heads, spec.hidden);
}

}  // namespace

std::string version() { return NASCENT_VERSION; }

void print_info(const std::filesystem::path& path) {
  print_program();
  if (path.empty()) return;
  if (std::filesystem::exists(path / "config.json")) return print_model(path);
  if (!std::filesystem::exists(path / "metrics.db")) {
    throw input_error("{}: neither a run (no metrics.db) nor a checkpoint (no config.json)", path.string());
  }
  const RunFolder run = RunFolder::open(path);
  fmt::print("{}: checkpoints of steps {}\n", path.string(), fmt::join(run.checkpoint_steps(), ", "));
  const std::vector<std::int64_t> resumable = resumable_steps(run);
  fmt::print("resumable: {}\n",
             resumable.empty() ? "none" : fmt::format("those of steps {}", fmt::join(resumable, ", ")));
  print_summary(MetricsDb::open_for_reading(run.metrics()));
}

}  // namespace nascent
