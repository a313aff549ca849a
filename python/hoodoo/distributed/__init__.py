"""Work on a table that is split into tasks of several processes.

| module | work |
|---|---|
| `write` | writes, with a task for each split of the rows |
| `read` | reads, with a task for each file slice |
| `compaction`, `clustering` | table services, with a task for each unit of a plan |
| `recovery` | cleans, rollbacks and restores, with tasks that list folders and delete files |
| `indexing` | indexes of the metadata table, with tasks that read file slices and tasks that write shards |
| `timeline` | reads of the timeline, with a task for each file of the history |
| `executor` | what an engine has to offer |

The driver plans and commits; tasks get strings and Arrow batches, and return strings and Arrow batches. Nothing here
depends on an engine: `hoodoo.spark` adapts Spark with one class, its `Executor`.
"""

from hoodoo.distributed.executor import Attempt, BatchFunction, Executor

__all__ = ["Attempt", "BatchFunction", "Executor"]
