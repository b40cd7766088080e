"""THE LOOP: the imperative shell. Each part does one unit of work per call and says whether there is more."""
