"""Where everything is kept: the only package that speaks SQL."""
