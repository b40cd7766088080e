"""everwhen's cron engine beside Debian's cron daemon, on the days on which clocks change."""
