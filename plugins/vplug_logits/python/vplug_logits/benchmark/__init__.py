"""How fast heads are: all modes beside honest baselines, interleaved, over the same states; and whole decode steps.

Nothing here is imported by a head that serves.
"""
