#!/usr/bin/env bash
# Builds nascent and runs its tests:  bash tests/run.sh [--preset cpu|cuda|asan|tsan] [OPTIONS OF ctest]
# For example  bash tests/run.sh -R resume
set -euo pipefail

usage="usage: bash tests/run.sh [--preset cpu|cuda|asan|tsan] [OPTIONS OF ctest]"
preset=cpu
while (($# > 0)); do
  case $1 in
    --preset) preset=${2:-}; shift 2 || { echo "$usage" >&2; exit 2; } ;;
    -h | --help) echo "$usage"; exit 0 ;;
    *) break ;;
  esac
done
case $preset in
  cpu | cuda | asan | tsan) ;;
  *) echo "run.sh: unknown preset '$preset'; $usage" >&2; exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case $preset in
  asan) which="every test but those that repeat at scale what a short one proves ([long])" ;;
  tsan) which="the tests that start threads ([threads])" ;;
  *) which="every test" ;;
esac
echo "This installs what is missing, builds preset $preset in build/$preset and runs $which${*:+, as far as ctest $* lets}."
bash train/install.sh
cmake --preset "$preset" -DNASCENT_TESTS=ON
cmake --build --preset "$preset"

log=build/$preset/tests.log
status=0
# Threads sleep where they wait, instead of spinning: on a busy machine spinning makes small loops a hundred times slower.
export OMP_WAIT_POLICY=passive
# One test at a time, since each uses all cores; but sanitized ones spend most of their time on one.
jobs=1
[[ $preset == c* ]] || jobs=$(nproc)
ctest --preset "$preset" -j "$jobs" "$@" 2>&1 < /dev/null | tee "$log" || status=$?

# ctest's own words, "96% tests passed, 1 tests failed out of 25" (newer ones say "test"), in one line that scripts can read.
summary=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log" | tail -n 1)
read -r failed total <<< "${summary:-0 0}"
skipped=$(grep -c '(Skipped)$' "$log" || true)
if ((total == 0)); then
  echo "run.sh: no tests ran" >&2
  status=1
fi
((skipped == 0)) || echo "run.sh: $skipped tests were skipped: they need a GPU, and none is here"
echo "$preset: $((total - failed - skipped)) tests passed, $failed failed"
exit "$status"
