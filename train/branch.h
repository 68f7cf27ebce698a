// `nascent branch`: a new run from another's checkpoint, with its optimizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/resume.h"

namespace nascent {

struct BranchOptions {
  std::filesystem::path run;     // the parent's folder; it is only read
  std::int64_t step = 0;         // of a resumable checkpoint
  std::string name;              // of the new run
  std::vector<std::string> set;  // keys in place of those the checkpoint was saved under
};

// The new run, its first checkpoint written. Throws (input) and leaves no folder for keys that do not fit the weights.
Resumed open_branch(const BranchOptions& options);

// All of it; returns the exit status as train does.
int branch(const BranchOptions& options);

}  // namespace nascent
