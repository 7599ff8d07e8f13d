"""`flyrun prove`: whether a sampler, a likelihood or a prior makes what it says it makes."""
