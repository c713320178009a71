"""What people and programs use from outside: the command line."""
