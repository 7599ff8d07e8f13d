"""Batches of rows: epochs deal all out, evenly."""

import numpy as np

from flyrun.ground.numerics.batches import Batches


def test_epochs_look_at_every_row_once_in_orders_of_their_own():
    batches = Batches(23, 5, "epochs")
    orders = [np.concatenate([batches.rows(5 * e + t, None, 7) for t in range(5)]) for e in range(3)]
    assert [len(batches.rows(t, None, 7)) for t in range(10)] == 2 * [4, 5, 4, 5, 5]
    assert all(sorted(order.tolist()) == list(range(23)) for order in orders)
    assert len({order.tobytes() for order in orders}) == 3
    assert Batches(23, 5, "epochs").rows(7, None, 7).tolist() == orders[1][9:13].tolist()
    assert (batches.factor, Batches(20, 5, "replacement").factor) == (5.0, 4.0)
