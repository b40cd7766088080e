"""How things look as JSON, wherever they are told: over REST and on the command line. No web framework is needed."""
