#!/usr/bin/env bash
# Builds nascent and runs its tests:  bash tests/run.sh [--preset cpu|asan]
set -euo pipefail

usage="usage: bash tests/run.sh [--preset cpu|asan]"
preset=cpu
while (($# > 0)); do
  case $1 in
    --preset) preset=${2:-}; shift 2 || { echo "$usage" >&2; exit 2; } ;;
    -h | --help) echo "$usage"; exit 0 ;;
    *) echo "run.sh: unknown argument $1; $usage" >&2; exit 2 ;;
  esac
done
case $preset in
  cpu | asan) ;;
  *) echo "run.sh: unknown preset '$preset'; $usage" >&2; exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
echo "This installs what is missing, builds preset $preset in build/$preset and runs every test."
bash train/install.sh
cmake --preset "$preset" -DNASCENT_TESTS=ON
cmake --build --preset "$preset"

log=build/$preset/tests.log
status=0
# One test at a time: each uses all cores, and spinning threads of two at once slow both many times over.
# Threads sleep where they wait, instead of spinning: on a busy machine spinning makes small loops a hundred times slower.
export OMP_WAIT_POLICY=passive
ctest --preset "$preset" 2>&1 < /dev/null | tee "$log" || status=$?

# ctest's own words, "96% tests passed, 1 tests failed out of 25" (newer ones say "test"), in one line that scripts can read.
summary=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log" | tail -n 1)
read -r failed total <<< "${summary:-0 0}"
if ((total == 0)); then
  echo "run.sh: no tests ran" >&2
  status=1
fi
echo "$preset: $((total - failed)) tests passed, $failed failed"
exit "$status"
