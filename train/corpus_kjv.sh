#!/usr/bin/env bash
# Writes the King James Bible as a corpus, a chapter a document:  bash train/corpus_kjv.sh OUT.txt
# One verse a line without its reference, an empty line between chapters.
set -euo pipefail

if (($# != 1)); then
  echo "usage: bash train/corpus_kjv.sh OUT.txt" >&2
  exit 2
fi
out=$1
part=$out.part
mkdir -p "$(dirname "$out")"
trap 'rm -f "$part"' EXIT

# bible prints "Ge1:1 In the beginning ...", "1Sm1:1 ..."; a chapter is what stands before the colon.
bible -f gen1:1-rev22:21 < /dev/null | awk '
  $1 !~ /^[1-3]?[A-Z][A-Za-z]*[0-9]+:[0-9]+$/ {
    print "corpus_kjv.sh: line " NR " of bible has no reference: " $0 > "/dev/stderr"
    bad = 1
    exit 1
  }
  {
    chapter = $1
    sub(/:.*/, "", chapter)
    if (NR > 1 && chapter != last) print ""
    if (chapter != last) ++chapters
    last = chapter
    sub(/^[^ ]+ +/, "")
    print
    if ($0 ~ /[0-9]/) {
      print "corpus_kjv.sh: a reference is left in: " $0 > "/dev/stderr"
      bad = 1
      exit 1
    }
  }
  END {
    if (!bad && chapters != 1189) {
      print "corpus_kjv.sh: found " chapters + 0 " chapters, the Bible has 1189" > "/dev/stderr"
      exit 1
    }
  }' > "$part"
mv "$part" "$out"
