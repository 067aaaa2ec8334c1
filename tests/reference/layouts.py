"""The swizzled scale layout, once as a formula for one byte and once as a permutation of whole tensors."""

import numpy as np


def swizzled_shape(rows: int, columns: int) -> tuple[int, int]:
    """Shape of the swizzled buffer of a [rows, columns] scale tensor."""
    return -(-rows // 128) * 128, -(-columns // 4) * 4


def offset(row: int, column: int, columns: int) -> int:
    """Byte of (row, column). Atoms of 128 rows x 4 columns are 512 contiguous bytes, stored row-major over the tensor.

    Inside an atom: 32 lines of 16 bytes; line r holds the rows r, r + 32, r + 64, r + 96, four columns each.
    """
    atom_row, row_in_atom = divmod(row, 128)
    atom_column, column_in_atom = divmod(column, 4)
    quarter, line = divmod(row_in_atom, 32)
    atoms_a_row = swizzled_shape(1, columns)[1] // 4
    return (atom_row * atoms_a_row + atom_column) * 512 + line * 16 + quarter * 4 + column_in_atom


def swizzle(linear: np.ndarray) -> np.ndarray:
    """[rows, columns] uint8 -> swizzled uint8 of swizzled_shape, padding zero."""
    rows, columns = linear.shape
    padded = np.zeros(swizzled_shape(rows, columns), np.uint8)
    padded[:rows, :columns] = linear
    atoms = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
    return np.ascontiguousarray(atoms.transpose(0, 3, 2, 1, 4)).reshape(padded.shape)


def unswizzle(swizzled: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The inverse of swizzle; padding is dropped."""
    padded_rows, padded_columns = swizzled_shape(rows, columns)
    atoms = swizzled.reshape(padded_rows // 128, padded_columns // 4, 32, 4, 4)
    return np.ascontiguousarray(atoms.transpose(0, 3, 2, 1, 4).reshape(padded_rows, padded_columns)[:rows, :columns])
