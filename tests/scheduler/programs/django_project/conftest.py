"""Its modules can be imported only with its settings, in processes of their own."""

collect_ignore_glob = ["*.py"]
