"""A device that answers no more, as after an illegal access, without a device: every call fails from then on, and with the same error."""

import pytest
import torch

from eqfuse.testing import assert_equivalent, size, tensors


def test_the_example_that_lost_the_device_is_the_one_that_is_reported(monkeypatch):
    lost = []

    def synchronize():
        if lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def faulty(x):
        if x.numel() > 40:
            lost.append(x.shape)
        synchronize()
        return x * 2

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    with pytest.raises(RuntimeError, match="illegal memory access") as caught:
        assert_equivalent(lambda x: x * 2, faulty, [tensors(torch.float32, (size("N", 1, 100),))], shrink_seconds=60)
    (note,) = caught.value.__notes__
    assert "the device answers no more" in note
    assert f"shrunk from {tuple(lost[0])} to {tuple(lost[0])}" in note, "a smaller one would have failed because the device was lost"
    assert len(lost) == 1
