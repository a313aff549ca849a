//! Writing: insert, upsert, delete, overwrite, commit.
