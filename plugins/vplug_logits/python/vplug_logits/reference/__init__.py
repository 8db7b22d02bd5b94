"""What every fast path is tested against: plain torch in float64, one formula a function, no cleverness.

Whole `(B, V)` matrices are made, so give a few states at a time.
"""
