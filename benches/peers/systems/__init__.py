"""The peers: one module for each system, one class for each way it is run."""

from __future__ import annotations

from importlib import import_module

from .peer import Peer

# The floor and hoodoo first: the other figures are read beside theirs.
_PEERS = {
    "floor": ("floor", "Floor"),
    "hoodoo": ("hoodoo_alone", "HoodooAlone"),
    "duckdb": ("duckdb_join", "DuckDbJoin"),
    "duckdb-plain": ("duckdb_join", "DuckDbPlainJoin"),
    "polars": ("polars_join", "PolarsJoin"),
    "deltalake": ("delta_merge", "DeltaMerge"),
    "hoodoo-spark": ("spark", "HoodooOnSpark"),
    "hudi": ("spark", "Hudi"),
    "hudi-metadata": ("spark", "HudiWithMetadata"),
}

NAMES = tuple(_PEERS)

__all__ = ["NAMES", "Peer", "peer"]


def peer(name: str) -> Peer:
    """Makes a peer; its packages are imported only now."""
    module, made = _PEERS[name]
    found: Peer = getattr(import_module(f".{module}", __package__), made)()
    return found
