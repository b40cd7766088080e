"""What every store must do, in one suite: run against each that `stores` knows."""
