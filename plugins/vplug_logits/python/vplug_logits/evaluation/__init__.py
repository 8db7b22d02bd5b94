"""What a head does to the answers of a model: misses, probabilities and bytes, beside plain baselines.

`vplug-logits evaluate MODEL` runs it; `states` -> `methods`, `baselines` -> `measures` -> `report`, `plots`.
"""
