"""What a store is: its methods, what it lists, and its errors."""
