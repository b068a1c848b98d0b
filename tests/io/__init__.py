# ruff: noqa: A005 - its full name is tests.io.
