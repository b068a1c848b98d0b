"""One random number for each item of each epoch of each run: 64 bits that depend on three numbers alone."""

from operator import index as to_int

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

_MASK = 0xFFFF_FFFF_FFFF_FFFF
# 2**64 divided by the golden ratio: `_mix` maps 0 to 0, and this keeps small numbers away from it.
_OFFSET = 0x9E37_79B9_7F4A_7C15


def random_key(seed: int, epoch: int, index: int) -> int:
    """Return 64 random bits for one item of one epoch.

    The key is the same in every thread, process and rank, on every machine and in every version. It tells nothing about
    the keys of other seeds, epochs and indices: ``(1, 0)`` and ``(0, 1)`` have nothing in common, as they would with
    ``seed + epoch``. Within an epoch no two indices from 0 to 2**64 - 1 have the same key.

    Args:
        seed: The run. Any int, also negative and of more than 64 bits.
        epoch: The pass over the data. Any int.
        index: The item, by its index in the dataset and not by when its turn comes. Any int.

    Returns:
        An int from 0 to 2**64 - 1, as seed for `random.Random`, ``numpy.random.default_rng`` or
        ``torch.Generator().manual_seed``. It is not secret: some keys are enough to compute the seed.

    Raises:
        TypeError: If one of them is not an int.
    """
    return _absorb(_absorb(_absorb(0, to_int(seed)), to_int(epoch)), to_int(index))


def _absorb(state: int, value: int) -> int:
    if not 0 <= value <= _MASK:
        # How many 64-bit limbs follow, and the sign, so that no two lists of limbs are the same.
        limbs = -(-value.bit_length() // 64)
        state = _mix(state ^ _mix(_OFFSET + 2 * limbs + (value < 0) & _MASK) ^ _OFFSET)
        value = abs(value)
        for _ in range(limbs - 1):
            state = _mix(state ^ _mix(value + _OFFSET & _MASK))
            value >>= 64
        value &= _MASK
    return _mix(state ^ _mix(value + _OFFSET & _MASK))


def _mix(bits: int) -> int:
    """Return the finaliser of splitmix64 (Stafford's variant 13), a permutation of the numbers of 64 bits."""
    bits = (bits ^ bits >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return bits ^ bits >> 31
