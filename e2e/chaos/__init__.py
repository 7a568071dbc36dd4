"""Random faults, for as long as wanted, on jobs that train; and a table of what came of them."""
