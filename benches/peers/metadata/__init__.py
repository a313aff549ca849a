"""What the metadata table is good for, and what it costs: beside listing, beside other indexes, and beside real Hudi.

python -m benches.peers.metadata [--only plan,filter,lookup,upsert,commit,entries] [--hudi]
"""
