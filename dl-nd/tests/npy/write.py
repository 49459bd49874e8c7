"""Writes the `.npy` files of this folder, for `tests/tensors/npy.rs`: python3 write.py (NumPy 2.4)."""

import numpy as np

np.save("floats.npy", np.array([[1.5, -2.0, 3.0], [4.0, np.inf, 6.25]], dtype=np.float64))
np.save("fortran.npy", np.asfortranarray(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.int64)))
np.save("mask.npy", np.array([True, False, True]))
np.save("big_endian.npy", np.array([1.0, -0.5], dtype=">f4"))
np.save("number.npy", np.array(2.5, dtype=np.float32))
