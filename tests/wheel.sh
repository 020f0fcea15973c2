#!/bin/sh
# Installs the wheel in a fresh environment and runs both programs from there.
# Usage: tests/wheel.sh PYTHON WHEEL
set -eu
python=$1
wheel=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/environment"
"$folder/environment/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
for program in wattrace wattrace-record; do
  "$folder/environment/bin/$program" --version
  "$folder/environment/bin/$program" --help >"$folder/help"
  grep -q "Usage: $program" "$folder/help"
done
# 1 is done, with findings: the sample archive has some on purpose.
"$folder/environment/bin/wattrace" analyze --quiet sample-data/archive --out "$folder/results" >/dev/null || test $? -eq 1
test -s "$folder/results/runs.parquet"
echo "wheel: both programs run from $(basename "$wheel")"
