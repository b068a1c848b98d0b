"""Run the real engine in a simulated world, whose every choice comes from a seed."""
