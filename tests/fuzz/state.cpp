// A checkpoint's state.json. The input is all but its last key, the digest of the text before it, which is added here:
// else nothing but a damaged file would ever be seen.
#include <filesystem>

#include "data/digest.h"
#include "data/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary.h"
#include "train/checkpoint_state.h"

namespace nascent::fuzz {
namespace {

constexpr const char* kLastKey = "\"xxh3 of state.json\"";

}  // namespace

std::vector<std::string> seeds() {
  const TemporaryFolder folder;
  CheckpointState state;
  state.step = 3;
  state.saved_for = SavedFor::kSignal;
  state.config = "name = \"x\"\n";
  state.files = {{"model.safetensors", "0123"}, {"config.json", ""}};
  write_state(folder.path, state);
  const std::string text = read_file(folder.file(kStateFile));
  return {text.substr(0, text.rfind(kLastKey))};
}

void try_input(std::string_view input) {
  const std::string text(input);
  const std::string path = file_of(kStateFile, text + kLastKey + ": \"" + digest(text) + "\"\n}\n");
  const CheckpointState state = read_state(std::filesystem::path(path).parent_path());
  differences(state.environment, {});
}

}  // namespace nascent::fuzz
