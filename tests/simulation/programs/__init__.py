"""Random whole programs over `spdl.pipeline`, an independent model of what may come out, and a runner that checks them.

A program (`program`) is data. `generate` draws one, `model` says what the documentation allows it to do, `build` makes
the pipeline out of it, `run` runs it in a world (`host`) and returns what was wrong, and `shrink` makes a program that
fails smaller. The model knows the documentation alone, not the engine.
"""
