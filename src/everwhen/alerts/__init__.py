"""The channels by which alerts leave everwhen: HTTP, e-mail, programs, Apprise. Each is imported when it is used."""
