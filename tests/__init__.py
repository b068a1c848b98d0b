"""The tests mirror the packages of spdl: one module for each module there."""
