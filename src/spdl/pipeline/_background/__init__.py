"""Tasks that run beside the stages, on the pipeline's event loop."""
