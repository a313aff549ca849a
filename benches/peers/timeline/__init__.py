"""The history of a timeline, read, archived and compacted by hoodoo and by Hudi on the same files."""
