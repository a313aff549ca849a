"""Spark as the tests start it, where starting it in the usual way costs much and changes nothing that they look at."""

from __future__ import annotations

import os
from typing import Any

# Spark reads the classes of all functions that it sends to tasks, each time anew, from the last of its 250 archives: a
# quarter of what the machine does when small tables are written. It looks for references that a function has no use
# for, so that more functions can be sent; where one could not, it fails.
_CONTEXT = """
package hoodoo.tests;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

public class ContextWithoutCleaning extends SparkContext {
    public ContextWithoutCleaning(SparkConf settings) {
        super(settings);
    }

    public Object clean(Object function, boolean checkSerializable) {
        return function;
    }
}
"""


def compiled(java: Any, source: str, name: str) -> Any:
    """Compile a Java class of the package `hoodoo.tests`, and give it."""
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(f"hoodoo.tests.{name}")


def start_context(settings: Any) -> None:
    """Start the context of Spark, for the session that is made next; in `make test-all` that starts its own.

    Args:
        settings: A `SparkConf` with all settings of the session.
    """
    if "HOODOO_TEST_ALL" in os.environ:
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized(conf=settings)
    gateway, java = SparkContext._gateway, SparkContext._jvm
    assert gateway is not None
    assert java is not None
    plain = java.SparkConf(True)
    for key, value in settings.getAll():
        plain.set(key, value)
    given = gateway.new_array(java.Object, 1)
    given[0] = plain
    context = compiled(java, _CONTEXT, "ContextWithoutCleaning").getConstructors()[0].newInstance(given)
    SparkContext(conf=settings, gateway=gateway, jsc=java.JavaSparkContext(context))
