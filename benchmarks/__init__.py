"""Measures everwhen against its peers, side by side; no goal here is ever asserted by a test."""
