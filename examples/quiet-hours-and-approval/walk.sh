#!/bin/sh
# An agent proposes a schedule, and a person approves it. Run it beside `everwhen up`, in the same directory.
set -eu
url=${SERVICE:-http://127.0.0.1:8750}
agent=$(everwhen token create agent --role operator --limit approval=required)
echo "The agent proposes a schedule:"
everwhen schedules create --url "$url" --token "$agent" --name tea --every 1h \
  --run '{"message": {"text": "Tea time"}}' --json > proposed.json
id=$(sed -nE 's/^ *"id": *"([^"]+)".*/\1/p' proposed.json | head -n 1)
echo "A person looks at what waits:"
everwhen schedules list --waiting
echo "The agent cannot approve it itself:"
everwhen schedules approve "$id" --revision 1 --url "$url" --token "$agent" || true
echo "The person approves revision 1:"
everwhen schedules approve "$id" --revision 1
