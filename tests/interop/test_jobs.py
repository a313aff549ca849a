"""The option dictionaries of common Hudi jobs: each gives the rows of Hudi, or an error that names an option."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from hoodoo import _native
from hoodoo.sync.keys import KEYS as SYNC_KEYS
from tests.interop.hudi import QUICK, Hudi
from tests.interop.jobs import JOBS
from tests.interop.jobs.job import Job
from tests.rows import Row, arrow_rows
from tests.s3_server import S3Server
from tests.zookeeper_server import ZookeeperServer

_DOCS = Path(__file__).resolve().parents[2] / "docs"
# Their keys are read by key generators, record mergers and the clients of AWS.
_OPEN = ("hoodie.keygen.", "hoodie.deltastreamer.keygen.", "hoodie.record.merge.property.")
_SUPPORT = {name: support for key, others, support in _native.option_keys() for name in (key, *others)} | {
    key: {"none": "no effect"}.get(known.support, known.support) for key, known in SYNC_KEYS.items()
}
# Thousands of tasks for a cluster would be as many on one core, for the same rows.
_FEW_TASKS = {key: value for key, value in QUICK.items() if key.endswith(".parallelism")}

Here = Callable[[Job], dict[str, str]]


@pytest.fixture(scope="module")
def aws() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.stop()


@pytest.fixture
def here(request: pytest.FixtureRequest) -> Here:
    """Where the servers of a job are on this machine, as options that replace its own."""

    def options(job: Job) -> dict[str, str]:
        if job.needs == "metastore":
            return {"hoodie.datasource.hive_sync.metastore.uris": request.getfixturevalue("metastore").uri}
        if job.needs == "zookeeper":
            server = request.getfixturevalue("zookeeper")
            return {
                # Hudi takes the port from the URL alone.
                "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{server.port}",
                "hoodie.write.lock.zookeeper.port": str(server.port),
            }
        if job.needs == "aws":
            endpoint = request.getfixturevalue("aws").endpoint
            return {
                "hoodie.write.lock.dynamodb.endpoint_url": endpoint,
                "hoodie.aws.glue.endpoint": endpoint,
                "hoodie.aws.glue.region": "us-east-1",
                "hoodie.aws.access.key": "right",
                "hoodie.aws.secret.key": "secret",
            }
        return {}

    return options


def _options_of(message: str) -> set[str]:
    """The options that a message names."""
    return set(re.findall(r"[A-Za-z_][\w.]*", message))


def _write(uri: str, job: Job, options: Mapping[str, str]) -> list[str]:
    """Runs the job with hoodoo; what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for operation, rows in job.steps:
            commit = hoodoo.write(rows, uri, operation=operation, options=options)
            assert not commit.warnings, commit.warnings
    assert all(issubclass(one.category, hoodoo.HudiWarning) for one in caught), [str(one.message) for one in caught]
    return [str(one.message) for one in caught]


def _write_with_hudi(hudi: Hudi, uri: str, job: Job, options: Mapping[str, str]) -> None:
    for operation, rows in job.steps:
        named = {} if operation is None else {"hoodie.datasource.write.operation": operation}
        settings = {**QUICK, **options, **job.theirs, **named, **_FEW_TASKS}
        hudi.frame(rows).write.format("hudi").options(**settings).mode("append").save(uri)


def _marked(job: Job) -> Any:
    marks = [] if job.daily else [pytest.mark.slow]
    if job.differs:
        marks.append(pytest.mark.xfail(strict=True, reason=job.differs))
    return pytest.param(job, id=job.name, marks=marks)


def test_there_are_jobs_of_every_kind() -> None:
    assert len(JOBS) >= 40
    assert len({job.name for job in JOBS}) == len(JOBS)
    assert len([job for job in JOBS if job.daily]) == 6
    for job in JOBS:
        assert set(job.warned) <= set(job.options), job.name
        assert bool(job.refused) == bool(job.remedy), job.name


def _rows_of(folder: Path) -> list[Row]:
    return arrow_rows(hoodoo.Table(str(folder)).to_arrow()) if folder.exists() else []


@pytest.mark.filterwarnings("ignore::hoodoo.HudiWarning")
@pytest.mark.parametrize("job", [job for job in JOBS if job.refused], ids=lambda job: job.name)
def test_refusals_name_the_option_and_change_no_rows(job: Job, tmp_path: Path) -> None:
    """Most are refused before the first batch; mergers and moved rows only when there is something to merge."""
    folder = tmp_path / "table"
    refusal = None
    for operation, rows in job.steps:
        before = _rows_of(folder)
        try:
            hoodoo.write(rows, str(folder), operation=operation, options=job.options)
        except (hoodoo.UnsupportedError, hoodoo.InvalidOptionError) as error:
            refusal = str(error)
            break
    assert refusal, "nothing was refused"
    for named in job.refused:
        assert named in refusal
    assert _rows_of(folder) == before


def _with_servers_slow(job: Job) -> Any:
    return pytest.param(job, id=job.name, marks=[pytest.mark.slow] if job.needs else [])


@pytest.mark.parametrize("job", [_with_servers_slow(job) for job in JOBS])
def test_no_option_is_ignored_in_silence(job: Job, tmp_path: Path, here: Here) -> None:
    options = job.remedied()
    documented = (_DOCS / "options.md").read_text(encoding="utf-8").split("## Without effect")[1]
    documented += (_DOCS / "catalogs.md").read_text(encoding="utf-8").split("### Without effect")[1]
    # Nothing here is about power cuts, and writes are many.
    options_here = {**options, **here(job), "hoodoo.storage.sync": "false"}
    messages = _write(str(tmp_path / "table"), job, options_here)
    named = {key for key in options if any(key in _options_of(message) for message in messages)}
    assert set(job.warned) <= named
    for key in options:
        support = _SUPPORT.get(key, "yes" if key.startswith(_OPEN) else "unknown")
        if support == "no effect":
            assert f"`{key}`" in documented, f"{key} has no effect, and the documentation does not say so"
        assert support != "unknown" or key in job.warned, f"{key} is ignored in silence"
        # What warnings say to set instead is an option that works.
        assert key not in named or key in job.warned or support == "yes", f"{key} is warned of"


@pytest.mark.parametrize("job", [_marked(job) for job in JOBS])
def test_rows_are_those_of_hudi(job: Job, hudi: Hudi, tmp_path: Path, here: Here) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    options = {**job.remedied(), **here(job)}
    _write(ours, job, options)
    _write_with_hudi(hudi, theirs, job, options)
    expected = hudi.read(theirs)
    assert expected
    assert hudi.read(ours) == expected
    assert hudi.read(ours, hoodie__metadata__enable="true") == expected
    assert arrow_rows(hoodoo.Table(ours).to_arrow()) == expected
    assert arrow_rows(hoodoo.Table(theirs).to_arrow()) == expected
    problems = hoodoo.Table(ours).verify().problems
    assert bool(problems) == job.copies
    assert all("in more than one row" in problem.message for problem in problems)
