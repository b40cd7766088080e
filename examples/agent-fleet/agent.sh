#!/bin/sh
# Stands for an agent: it repeats its prompt, reports what that cost, and hands the draft on to the folder that it is given.
set -eu
prompt=$(cat)
echo "$prompt"
if [ -n "${EVERWHEN_WORK_ITEM:-}" ] && [ $# -eq 1 ]; then
  mkdir -p "$1"
  echo "$prompt" > "$1/.$EVERWHEN_JOB_ID"
  mv "$1/.$EVERWHEN_JOB_ID" "$1/$EVERWHEN_JOB_ID.md"
fi
echo '{"cost": "0.40 USD", "summary": "done"}' > "$EVERWHEN_REPORT"
