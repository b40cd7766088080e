#!/usr/bin/env bash
# A plugin in bash. Where jq is installed it reads any request; for a number and a path without quotes sed will do.
set -euo pipefail
request=$(cat)
path=$(sed -nE 's/.*"path": *"([^"\\]*)".*/\1/p' <<<"$request")
limit=$(sed -nE 's/.*"limit": *([0-9]+).*/\1/p' <<<"$request")
used=$(df -P "$path" | awk 'NR == 2 { sub("%", "", $5); print $5 }')

echo "looked at $path" >&2          # standard error is the output of the job
if (( used > limit )); then
  # "retry": false makes the failure final: a second look would find the same.
  printf '{"status": "error", "error": "%s is %d %% full", "retry": false}\n' "$path" "$used"
else
  printf '{"status": "ok", "result": "%s is %d %% full", "state_updates": {"used": %d}}\n' "$path" "$used" "$used"
fi
