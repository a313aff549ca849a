"""Puts the bundle of real Apache Hudi into `.cache/hudi`, where the interop tests look for it.

It is taken from the local Maven repository when it is there, else Spark resolves it by its coordinates.
"""

from __future__ import annotations

import os
import shutil
import ssl
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUP, ARTIFACT, VERSION = "org.apache.hudi", "hudi-spark3.5-bundle_2.12", "1.2.0"
JAR = f"{ARTIFACT}-{VERSION}.jar"
# The bundle itself is some 80 MB; anything much smaller is a broken download.
SMALLEST = 50_000_000


def local_repository_jar() -> Path:
    """Returns where Maven keeps the bundle once somebody on this machine has fetched it."""
    return Path.home() / ".m2" / "repository" / Path(*GROUP.split(".")) / ARTIFACT / VERSION / JAR


def trust_what_the_machine_trusts(store: Path) -> None:
    """Gives Java the certificates of the machine: a runtime from a wheel knows none that were added to it."""
    from cryptography import x509  # noqa: PLC0415  # only when there is something to fetch
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415

    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        return
    certificates = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    password = "changeit"  # noqa: S105  # public certificates only; Java's own store has the same
    entries = [pkcs12.PKCS12Certificate(one, f"ca{number}".encode()) for number, one in enumerate(certificates)]
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(password.encode())))
    options = {"trustStore": str(store), "trustStoreType": "PKCS12", "trustStorePassword": password}
    settings = " ".join(f"-Djavax.net.ssl.{name}={value}" for name, value in options.items())
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {settings}".strip()


def resolve_through_spark(ivy: Path) -> Path:
    """Lets a short Spark session fetch the bundle, without the dependencies that Spark has already."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only when there is something to fetch

    session = (
        SparkSession.builder.master("local[1]")
        .appName("fetch the Hudi bundle")
        .config("spark.ui.enabled", "false")
        .config("spark.jars.ivy", str(ivy))
        .config("spark.jars.packages", f"{GROUP}:{ARTIFACT}:{VERSION}")
        .config("spark.jars.excludes", "org.slf4j:slf4j-api,org.apache.hive:hive-storage-api")
        .getOrCreate()
    )
    session.stop()
    return ivy / "jars" / f"{GROUP}_{JAR}"


def place(source: Path, target: Path) -> None:
    """Links the jar under its final name, or copies it where links are not to be had; never half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(source, unfinished)
    except OSError:
        shutil.copyfile(source, unfinished)
    unfinished.replace(target)


def is_whole(jar: Path) -> bool:
    """Tells whether the file is there and has a plausible size."""
    return jar.is_file() and jar.stat().st_size >= SMALLEST


def main() -> int:
    """Makes the bundle available and says in one line what was done."""
    target = ROOT / ".cache" / "hudi" / JAR
    if is_whole(target):
        print(f"Apache Hudi {VERSION} is in .cache/hudi")
        return 0
    if is_whole(local_repository_jar()):
        place(local_repository_jar(), target)
        print(f"Apache Hudi {VERSION} taken from the local Maven repository")
        return 0
    if Path(os.environ.get("JAVA_HOME", "")).resolve() == ROOT / ".cache" / "java":
        trust_what_the_machine_trusts(ROOT / ".cache" / "ivy" / "trust.p12")
    fetched = resolve_through_spark(ROOT / ".cache" / "ivy")
    if not is_whole(fetched):
        print(f"Spark did not fetch {GROUP}:{ARTIFACT}:{VERSION}; is Maven Central reachable?", file=sys.stderr)
        return 1
    place(fetched, target)
    shutil.rmtree(ROOT / ".cache" / "ivy", ignore_errors=True)
    print(f"Apache Hudi {VERSION} fetched from Maven Central")
    return 0


if __name__ == "__main__":
    sys.exit(main())
