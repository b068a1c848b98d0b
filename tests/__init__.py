"""The tests mirror the packages of spdl, with one module for each module there."""
