#!/usr/bin/env python3
"""A plugin of protocol 2: one JSON object on standard input, one on standard output, then it is over."""

import json
import sys

SKIES = ("sunny", "cloudy", "rainy", "windy")

asked = json.load(sys.stdin)
looks = asked["state"].get("looks", 0) + 1  # what the last run left in state_updates
answer = {
    "status": "ok",
    "result": f"{asked['payload']['city']} is {SKIES[looks % len(SKIES)]}",
    "state_updates": {"looks": looks},
}
json.dump(answer, sys.stdout)
