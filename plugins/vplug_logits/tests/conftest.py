"""What the tests share: seeds, small heads."""
