"""What every test gets."""

pytest_plugins = ["tests.leaks", "pytester"]
