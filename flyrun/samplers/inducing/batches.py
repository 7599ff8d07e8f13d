"""Which rows a step reads: epochs without replacement, or draws with it."""

import numpy as np

from flyrun.numerics.state import generator, generator_state


class Batches:
    """Of `size` rows. In an epoch sizes differ by one at most where size does not divide N.

    factor: what sums over a batch are multiplied by, N/size; in an epoch, so that all its rows count alike,
    the number of its batches.
    """

    def __init__(self, n_data: int, size: int, replace: bool):
        self.n_data, self.size, self.replace = n_data, size, replace
        self.count = max(1, round(n_data / size))
        self.factor = n_data / size if replace else float(self.count)
        self._kept: tuple[bytes, list[np.ndarray], np.ndarray] | None = None

    def rows(self, words: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of step 0, 1, …, and the generator's words for the next one."""
        if self.replace:
            rng = generator(words)
            return rng.integers(self.n_data, size=self.size), generator_state(rng)
        if self._kept is None or self._kept[0] != words.tobytes():
            rng = generator(words)
            parts = np.array_split(rng.permutation(self.n_data), self.count)
            self._kept = words.tobytes(), parts, generator_state(rng)
        _, parts, after = self._kept
        place = step % self.count
        return parts[place], after if place == self.count - 1 else words
