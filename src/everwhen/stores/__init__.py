"""Where everything is kept: the only room that speaks SQL."""
