"""Triton functions that kernels call for scalar operations (:mod:`.ops`); floats are float32 there.

Texts, since generated modules have them.
"""

ROUND = '''
@triton.jit
def _round(x):
    """To the nearest integer, half to even: the rounding of a sum with 2**23, whose neighbours are integers.  A zero keeps its sign."""
    size = tl.abs(x)
    n = (size + 8388608.0) - 8388608.0
    return tl.where(size < 8388608.0, tl.where(n == 0.0, x * 0.0, tl.where(x < 0.0, -n, n)), x)
'''

FMOD = '''
@triton.jit
def _fmod(x, y):
    """The remainder of a division that drops the fraction: it has the sign of x.  Of an integer and 0 it is 0."""
    if (x + y).dtype.is_floating():
        return x % y
    else:
        return tl.where(y == 0, 0, x % tl.where(y == 0, 1, y))
'''

REMAINDER = '''
@triton.jit
def _remainder(x, y):
    """The remainder of a division that rounds down: it has the sign of y.  Of an integer and 0 it is 0."""
    if (x + y).dtype.is_floating():
        r = x % y
    else:
        r = tl.where(y == 0, 0, x % tl.where(y == 0, 1, y))
    return tl.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
'''

FLOORDIV = '''
@triton.jit
def _floordiv(x, y):
    """A quotient rounded down.  Of integers and 0 it is 0; of floats it is found from the remainder, as Python does."""
    if (x + y).dtype.is_floating():
        r = x % y
        q = (x - r) / y - tl.where((r != 0) & ((r < 0) != (y < 0)), 1.0, 0.0)
        n = tl.floor(q)
        found = tl.where(q - n > 0.5, n + 1.0, n)
        return tl.where(y == 0, x / y, found)
    else:
        d = tl.where(y == 0, 1, y)
        q = x // d
        r = x - q * d
        return tl.where(y == 0, 0, tl.where((r != 0) & ((r < 0) != (d < 0)), q - 1, q))
'''

LSHIFT = '''
@triton.jit
def _lshift(x, n):
    """x * 2**n, and 0 where n is no position of a bit."""
    width: tl.constexpr = (x + n).dtype.primitive_bitwidth
    ok = (n >= 0) & (n < width)
    return tl.where(ok, x << tl.where(ok, n, 0), 0)
'''

RSHIFT = '''
@triton.jit
def _rshift(x, n):
    """x // 2**n rounded down; the sign alone where n is no position of a bit."""
    width: tl.constexpr = (x + n).dtype.primitive_bitwidth
    return x >> tl.where((n >= 0) & (n < width), n, width - 1)
'''

POW = '''
@triton.jit
def _pow(x, y):
    """x^y = 2^(y log2|x|), as C's pow has it, with a logarithm of two floats: one would lose |y log2 x| units in the last place.

    |x| = m 2^e with m between sqrt(1/2) and sqrt(2), and log2 m is odd in s + rest = (m - 1) / (m + 1).
    h + l is the logarithm, and y h + y l = k + r for the nearest integer k.
    """
    x, y = tl.cast(x, tl.float32), tl.cast(y, tl.float32)
    a = tl.abs(x)
    small = a < 1.17549435e-38
    bits = tl.where(small, a * 8388608.0, a).to(tl.int32, bitcast=True)
    up = (bits - 0x3F3504F3) & -8388608
    m = (bits - up).to(tl.float32, bitcast=True)
    e = (up >> 23).to(tl.float32) - tl.where(small, 23.0, 0.0)
    n = m + 1.0
    s = (m - 1.0) / n
    rest = (tl.fma(-s, n, m - 1.0) - s * (m - (n - 1.0))) / n
    both = s + rest
    z = both * both
    tail = both * z * (0.9617966733499671 + z * (0.577083583289925 + z * (0.4116728256433207 + z * 0.34072803132716234)))
    h = tl.fma(s, 2.885390043258667, e)
    l = tl.fma(s, 2.885390043258667, e - h) + (tail + (rest * 2.885390081790082 + s * 3.8531e-08))
    t = tl.where(y > 4294967296.0, 4294967296.0, tl.where(y < -4294967296.0, -4294967296.0, y))  # enough for 0 and infinity
    k = tl.floor(tl.minimum(tl.maximum(t * h, -200.0), 200.0) + 0.5)
    i = k.to(tl.int32)
    first, second = ((i >> 1) + 127) << 23, ((i - (i >> 1)) + 127) << 23  # the bits of two powers of 2, whose product is 2^k
    found = tl.exp2(tl.fma(t, l, tl.fma(t, h, -k)))
    found = found * first.to(tl.float32, bitcast=True) * second.to(tl.float32, bitcast=True)
    limit = tl.where((a == 0.0) == (y < 0.0), float("inf"), 0.0)
    found = tl.where((a == 0.0) | (a == float("inf")), limit, found)
    whole, half = tl.floor(y) == y, y * 0.5
    odd = whole & (tl.floor(half) != half)
    found = tl.where(odd & (x.to(tl.int32, bitcast=True) < 0), found * -1.0, found)
    found = tl.where((x < 0.0) & (whole == 0) & (a != float("inf")), float("nan"), found)
    found = tl.where((x != x) | (y != y), x + y, found)
    return tl.where((x == 1.0) | (y == 0.0), 1.0, found)
'''

TANH = '''
@triton.jit
def _tanh(x):
    """tanh without cancellation near zero: an odd polynomial for |x| < 0.3, exponentials of a negative argument beyond."""
    a = tl.abs(x)
    e = tl.exp(-2.0 * a)
    y = x * x
    near = x + x * y * (-0.33333333 + y * (0.13333333 + y * (-0.053968254 + y * (0.021869488 - 0.008863236 * y))))
    far = (1.0 - e) / (1.0 + e)
    return tl.where(a < 0.3, near, tl.where(x < 0.0, -far, far))
'''

SINH = '''
@triton.jit
def _sinh(x):
    """sinh without cancellation near zero: an odd polynomial for |x| < 1, exponentials beyond, which overflow no earlier."""
    e = tl.exp(0.5 * tl.abs(x))
    y = x * x
    near = x + x * y * (0.16666667 + y * (0.008333333 + y * (0.00019841270 + y * 2.7557319e-06)))
    far = (0.5 * e) * e - 0.5 / (e * e)
    return tl.where(tl.abs(x) < 1.0, near, tl.where(x < 0.0, -far, far))
'''

COSH = '''
@triton.jit
def _cosh(x):
    """cosh by exponentials, which overflow no earlier."""
    e = tl.exp(0.5 * tl.abs(x))
    return (0.5 * e) * e + 0.5 / (e * e)
'''

LOG1P = '''
@triton.jit
def _log1p(x):
    """log(1 + x) without losing x where 1 + x rounds to 1: the rounding of u = 1 + x cancels in x / (u - 1)."""
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.where(tl.abs(u) == float("inf"), tl.log(u), tl.log(u) * (x / (u - 1.0))))
'''

MAXIMUM = '''
@triton.jit
def _maximum(a, b):
    """The larger of two; NaN if either is NaN, as in torch (tl.maximum alone ignores it)."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
'''

MINIMUM = '''
@triton.jit
def _minimum(a, b):
    """The smaller of two; NaN if either is NaN, as in torch (tl.minimum alone ignores it)."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
'''

EXPM1 = '''
@triton.jit
def _expm1(x):
    """exp(x) - 1 without cancellation near zero: a polynomial for |x| < 0.5."""
    y = x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * (0.0001984127 + x * 2.4801588e-05)))))
    return tl.where(tl.abs(x) < 0.5, x + x * x * (0.5 + y), tl.exp(x) - 1.0)
'''

ERFC = '''
@triton.jit
def _erfc(x):
    """1 - erf(x) without cancellation where x is large: Chebyshev's fit of Numerical Recipes, 1.2e-7 of the value.

    The square of z is squared + lost: its own rounding would be z^2 units in the last place of the exponential.
    """
    z = tl.where(tl.abs(x) > 30.0, 30.0, tl.abs(x))
    squared = z * z
    lost = tl.fma(z, z, -squared)
    t = 1.0 / (1.0 + 0.5 * z)
    p = -0.82215223 + t * 0.17087277
    p = -0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * p)))
    p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * p)))
    far = t * tl.exp(-squared) * tl.exp(p - lost)
    return tl.where(x < 0.0, 2.0 - far, far)
'''

ATAN = '''
@triton.jit
def _atan(x):
    """atan by its addition theorem: an odd polynomial for |x| < tan(pi/8), pi/4 + atan((a - 1) / (a + 1)) and pi/2 - atan(1 / a) beyond."""
    a = tl.abs(x)
    far = a > 2.414213562
    near = a < 0.4142135624
    r = tl.where(near, a, tl.where(far, -1.0 / a, (a - 1.0) / (a + 1.0)))
    y = r * r
    p = r + r * y * (-0.333329491539 + y * (0.199777106478 + y * (-0.138776856032 + y * 0.0805374449538)))
    found = p + tl.where(near, 0.0, tl.where(far, 1.5707963267948966, 0.7853981633974483))
    return tl.where(x < 0.0, -found, tl.where(x == 0.0, x, found))
'''
