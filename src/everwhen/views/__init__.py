"""How things look as JSON, over REST and on the command line alike. No web framework is needed."""
