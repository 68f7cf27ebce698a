#!/usr/bin/env bash
# Installs the packages of train/packages.txt that this Debian or Ubuntu machine lacks, and those named as arguments.
# Silent when nothing is missing. Exits 2 when it may not install, after printing the command to run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! command -v dpkg-query > /dev/null; then
  echo "install.sh: this machine has no dpkg (Debian, Ubuntu); install the equivalents of $here/packages.txt" >&2
  exit 2
fi

missing=()
while read -r package; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done < <(sed 's/#.*//' "$here/packages.txt" | awk 'NF {print $1}'; (($# == 0)) || printf '%s\n' "$@")
((${#missing[@]} > 0)) || exit 0

as_root=()
if [[ $(id -u) != 0 ]]; then
  if command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  else
    echo "install.sh: packages are missing and only root may install them. Run as root:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
fi

echo "Installing ${#missing[@]} missing packages: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq < /dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" < /dev/null > /dev/null
echo "Installed."
