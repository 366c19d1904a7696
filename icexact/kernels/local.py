"""What one step tells about the next state: conditional entropies and informations of the rows of a chain.

An entry is part * n + t: what was seen, and what follows; the entries of a row are distinct and ascending, their values sum to the row's probability.
"""

from icexact.kernels.entropy import pivot_entropy
from icexact.kernels.jit import kernel
from icexact.kernels.logarithm import divergence


@kernel
def conditional_entropies(ptr, entry, n, value, out):
    """out[i] = H(t | part) of row i."""
    for i in range(len(ptr) - 1):
        out[i] = 0.0
        a = ptr[i]
        while a < ptr[i + 1]:
            part = entry[a] // n
            b = a
            whole = 0.0
            while b < ptr[i + 1] and entry[b] // n == part:
                whole += value[b]
                b += 1
            if b - a > 1:
                out[i] += pivot_entropy(value, a, b - a, whole)
            a = b


@kernel
def informations(ptr, entry, n, value, whole_ptr, whole_entry, whole_value, out):
    """out[i] = I(part; t) of row i in Bregman form; the law of t alone is whole_entry, whole_value."""
    for i in range(len(ptr) - 1):
        out[i] = 0.0
        a = ptr[i]
        while a < ptr[i + 1]:
            part = entry[a] // n
            b = a
            weight = 0.0
            while b < ptr[i + 1] and entry[b] // n == part:
                weight += value[b]
                b += 1
            if a == ptr[i] and b == ptr[i + 1]:
                break  # one part alone tells nothing
            for j in range(whole_ptr[i], whole_ptr[i + 1]):
                q = weight * whole_value[j]
                if a < b and entry[a] % n == whole_entry[j]:
                    out[i] += divergence(value[a], q)
                    a += 1
                else:
                    out[i] += q
            a = b
