#!/usr/bin/env bash
# From nothing to a trained model:  bash train/quickstart.sh [OPTIONS OF nascent train]
# For example  bash train/quickstart.sh --set train.steps=20
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
SECONDS=0
run=runs/quickstart
nascent=build/quickstart/nascent
echo "This will"
echo "  1. install the packages that are missing (train/packages.txt)"
echo "  2. build nascent in build/quickstart"
echo "  3. make a corpus, the King James Bible, and its tokenizer in corpus/"
echo "  4. train a small language model on it for a few minutes, with its geometry measured at every step, in $run"
echo "  5. let the model continue a sentence"

step() { printf '\n== %s\n' "$*"; }

step "Packages"
bash train/install.sh

step "Build"
cmake -S . -B build/quickstart -G Ninja -DCMAKE_BUILD_TYPE=Release -DNASCENT_TESTS=OFF
cmake --build build/quickstart --target nascent

step "Corpus"
[[ -s corpus/kjv.txt ]] || bash train/corpus_kjv.sh corpus/kjv.txt
[[ -s corpus/kjv.model ]] || "$nascent" corpus train-tokenizer corpus/kjv.txt --vocab 2048 --out corpus/kjv.model
[[ -s corpus/kjv.bin ]] ||
  "$nascent" corpus tokenize corpus/kjv.txt --tokenizer corpus/kjv.model --out corpus/kjv --append-eos

step "Training"
"$nascent" train train/quickstart.toml --overwrite "$@"

step "A sample"
"$nascent" generate "$run" --prompt "In the beginning" --tokens 100

step "Done"
awk -v seconds="$SECONDS" 'BEGIN {printf "%.1f minutes in all. ", seconds / 60}'
echo "The run is in $run: metrics.db, checkpoints/, config.toml."
