"""What every store must do, in one suite that runs against each store that `stores` lists."""
