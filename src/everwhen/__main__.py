"""`python -m everwhen` is the command line, where its script is not on the path."""

from everwhen.cli.main import main

if __name__ == "__main__":
    main()
