"""How far data can go in what they say of a move from one position to another: what bounds ask for."""

from flyrun.ground.numerics.compiled import inlined


@inlined
def range_width(ranges, theta, proposal, phi, proposed_phi):
    """R of the range [a, a + R] that holds R_k,n(proposal) − R_k,n(theta) for all data n.

    R_k is log L less its Taylor polynomial of order k, log L itself for k = 0. theta, proposal: (P,); phi,
    proposed_phi: the same two positions whitened, (P,), where the ranges are made of leverages. No query.
    """


@inlined
def reach(bounds, theta, proposal, phi, proposed_phi):
    """M with |R_k,n(proposal) − R_k,n(theta)| ≤ c_n·M for all data n, the same both ways; else as above."""
