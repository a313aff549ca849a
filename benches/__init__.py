"""Benches. The ones of the core are criterion's, in Rust beside this file; `benches.peers` compares with others."""
