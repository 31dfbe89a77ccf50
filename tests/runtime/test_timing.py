"""What of timing needs no GPU, and a timing where there is one."""

import pytest
import torch

from eqfuse.errors import DeviceError
from eqfuse.runtime.timing import copies_beyond, summarise, time_calls


def test_median_and_percentiles_by_nearest_rank():
    found = summarise([float(n) for n in range(100, 0, -1)])
    assert (found.median_us, found.low_us, found.high_us, found.samples) == (50.5, 10.0, 90.0, 100)
    assert found.spread == pytest.approx(80 / 50.5)
    assert str(found) == "50.5 us (10.0 to 90.0, 100 calls)"


def test_one_sample_is_its_own_spread():
    assert summarise([3.0]).spread == 0.0
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


@pytest.mark.parametrize(("l2", "size", "copies"), [(100, 1000, 2), (100, 100, 3), (100, 10, 21), (100, 0, 201)])
def test_inputs_rotate_until_they_have_left_the_cache(l2, size, copies):
    assert copies_beyond(l2, size) == copies
    assert (copies - 1) * size >= 2 * l2 or size == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_timing_without_a_gpu_is_refused():
    with pytest.raises(DeviceError, match="needs a CUDA device"):
        time_calls(lambda: None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_twice_the_work_takes_longer():
    x = torch.randn(1 << 26, device="cuda")
    one, two = time_calls(lambda: x + 1), time_calls(lambda: x + 1 + 1)
    assert 0 < one.median_us < two.median_us
