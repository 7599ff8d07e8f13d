"""flyrun: which sampler can I trust on tall data, and what does it cost?"""

__version__ = "0.1.0"
