#!/usr/bin/env bash
# Builds the fuzz targets and runs each for its share of the time:  bash tests/fuzz/run.sh SECONDS [TARGET...]
# What it finds lies in build/fuzz/findings, its corpus, which the next run begins with, in build/fuzz/corpus.
set -euo pipefail

usage="usage: bash tests/fuzz/run.sh SECONDS [TARGET...]"
seconds=${1:-}
if [[ ! $seconds =~ ^[0-9]+$ ]] || ((seconds == 0)); then
  echo "$usage" >&2
  exit 2
fi
shift

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v clang++-19 > /dev/null; then
  echo "run.sh: clang++-19 is not installed: apt-get install clang-19 libclang-rt-19-dev" >&2
  exit 2
fi
targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*.cpp; do
    target=$(basename "$source" .cpp)
    if [[ $target != fuzz ]]; then targets+=("$target"); fi
  done
fi
cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 > /dev/null
cmake --build build/fuzz --target "${targets[@]/#/fuzz_}"

share=$((seconds / ${#targets[@]}))
if ((share == 0)); then share=1; fi
findings=build/fuzz/findings
mkdir -p "$findings"
# The files the targets parse: in memory where that is possible, and gone at the end whatever happens.
memory=/tmp
if [[ -d /dev/shm && -w /dev/shm ]]; then memory=/dev/shm; fi
TMPDIR=$(mktemp -d "$memory/nascent_fuzz_XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

passed=0
failed=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$corpus"
  if "build/fuzz/fuzz_$target" -max_total_time="$share" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=64 \
    -artifact_prefix="$findings/${target}_" -print_final_stats=1 "$corpus" > "$log" 2>&1; then
    passed=$((passed + 1))
    awk -v target="$target" '/number_of_executed_units/ {print "fuzz: " target ": " $2 " inputs"}' "$log"
  else
    failed=$((failed + 1))
    tail -n 60 "$log"
    echo "fuzz: $target FAILED; the input is in $findings"
  fi
done
echo "fuzz: $passed tests passed, $failed failed"
((failed == 0))
