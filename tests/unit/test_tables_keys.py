from gossamer.archive.tables import arrow_table
from gossamer.columns import Column, Table


def test_keys_keep_all_their_bits() -> None:
    """NumPy makes floats of lists with integers on both sides of 2**63."""
    table = Table("keys", "", (Column("key", "u8", ""),))
    keys = [(1 << 63) + 12345, 12345, (1 << 53) + 1]
    assert arrow_table(table, {"key": keys}).column("key").to_pylist() == keys
