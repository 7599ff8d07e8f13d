"""A generator with known draws, for single steps held against their formula."""


class KnownDraws:
    """normals: handed out in turn. uniform: every uniform."""

    def __init__(self, normals, uniform):
        self.normals, self.uniform = iter(normals), uniform

    def standard_normal(self):
        """The next normal."""
        return next(self.normals)

    def random(self):
        """The uniform."""
        return self.uniform
