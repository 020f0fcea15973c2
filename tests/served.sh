#!/bin/sh
# Checks and analyses the archive that the recorder's test of a real server left behind, and compares.
# Usage: tests/served.sh WATTRACE FOLDER
set -eu
wattrace=$1
folder=$2
if [ ! -s "$folder/expected" ]; then
  echo "skipped: no real server was recorded into $folder"
  exit 0
fi
# 1 is done, with findings. A busy machine reads late, and check says so; nothing else may be broken.
"$wattrace" check --quiet --json "$folder/archive" >"$folder/check.json" || test $? -eq 1
awk -F'"' '
  $2 == "check" { rule = $4 }
  $2 == "outcome" { rules++ }
  $2 == "outcome" && $4 == "broken" && rule !~ /^(power-gap|power-coverage|counter-stalls)$/ {
    print "served: the rule " rule " is broken"
    broken = 1
  }
  END { if (broken || rules == 0) exit 1 }
' "$folder/check.json"
rm -rf "$folder/results"
"$wattrace" analyze "$folder/archive" --out "$folder/results"
awk -F, '
  FNR == NR { split($0, expected, " "); next }
  FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  {
    rows++
    requests = $column["requests_total"]; tokens = $column["output_tokens"]; energy = $column["formal_j_per_token"]
    off = energy / expected[3] - 1
    printf "served: %d formal requests, %d output tokens, %s J/token; expected %s, %s, %s\n",
      requests, tokens, energy, expected[1], expected[2], expected[3]
    if (requests != expected[1] || tokens != expected[2] || off > 1e-3 || off < -1e-3) exit 1
  }
  END { if (rows != 1) exit 1 }
' "$folder/expected" "$folder/results/runs.csv"
