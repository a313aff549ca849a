"""Java objects as a JVM has them, for what Hudi serialised them into before version 1.0.

py4j turns texts and numbers into Python's on the way back, so that two references to one text could not be told from
two texts. Each object is therefore kept in a Java array of one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tests.interop.hudi import Hudi

_MODEL = "org.apache.hudi.common.model"


class JavaObjects:
    """Makes them in the JVM of a session."""

    def __init__(self, hudi: Hudi) -> None:
        """Looks the classes up."""
        self._jvm = hudi.spark._jvm
        self._gateway = hudi.spark.sparkContext._gateway
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()

        def types(*names: str) -> Any:
            return self._array(self._jvm.java.lang.Class, [loader.loadClass(name) for name in names])

        model = self._jvm.org.apache.hudi.common.model
        self._key_class, self._delete_class = model.HoodieKey, model.DeleteRecord
        key = loader.loadClass(f"{_MODEL}.HoodieKey")
        self._new_key = key.getConstructor(types("java.lang.String", "java.lang.String"))
        delete = loader.loadClass(f"{_MODEL}.DeleteRecord")
        self._new_delete = delete.getMethod("create", types(f"{_MODEL}.HoodieKey", "java.lang.Comparable"))

    def _array(self, of: Any, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(of, len(items))
        for place, item in enumerate(items):
            array[place] = item
        return array

    def _objects(self, *kept: Any) -> Any:
        array = self._gateway.new_array(self._jvm.java.lang.Object, len(kept))
        for place, one in enumerate(kept):
            self._jvm.java.lang.System.arraycopy(one, 0, array, place, 1)
        return array

    def _boxed(self, kind: Any, value: object) -> Any:
        return self._array(kind, [value])

    def text(self, value: str) -> Any:
        """Gives a `String`."""
        return self._boxed(self._jvm.java.lang.String, value)

    def integer(self, value: int) -> Any:
        """Gives an `Integer`."""
        return self._boxed(self._jvm.java.lang.Integer, value)

    def long(self, value: int) -> Any:
        """Gives a `Long`."""
        return self._boxed(self._jvm.java.lang.Long, value)

    def double(self, value: float) -> Any:
        """Gives a `Double`."""
        return self._boxed(self._jvm.java.lang.Double, value)

    def float(self, value: float) -> Any:
        """Gives a `Float`."""
        return self._boxed(self._jvm.java.lang.Float, value)

    def boolean(self, value: bool) -> Any:
        """Gives a `Boolean`."""
        return self._boxed(self._jvm.java.lang.Boolean, value)

    def decimal(self, value: Decimal) -> Any:
        """Gives a `BigDecimal`."""
        return self._boxed(self._jvm.java.math.BigDecimal, value)

    def avro_text(self, value: str) -> Any:
        """Gives Avro's `Utf8`."""
        return self._boxed(self._jvm.java.lang.Object, self._jvm.org.apache.avro.util.Utf8(value))

    def date(self, year: int, month: int, day: int) -> Any:
        """Gives a `LocalDate`."""
        return self._boxed(self._jvm.java.lang.Object, self._jvm.java.time.LocalDate.of(year, month, day))

    def sql_timestamp(self) -> Any:
        """Gives a `java.sql.Timestamp`, whatever it says."""
        return self._boxed(self._jvm.java.lang.Object, self._jvm.java.sql.Timestamp.valueOf("2024-01-02 03:04:05"))

    def null(self) -> Any:
        """Gives none."""
        return self._gateway.new_array(self._jvm.java.lang.Object, 1)

    def key(self, key: Any, partition: Any) -> Any:
        """Gives a `HoodieKey`."""
        return self._new_key.newInstance(self._objects(key, partition))

    def delete(self, key: Any, partition: Any, ordering: Any) -> Any:
        """Gives a `DeleteRecord`."""
        made = self._boxed(self._jvm.java.lang.Object, self.key(key, partition))
        return self._new_delete.invoke(None, self._objects(made, ordering))

    def keys(self, keys: Sequence[Any]) -> Any:
        """Gives a `HoodieKey[]`."""
        return self._array(self._key_class, keys)

    def deletes(self, deletes: Sequence[Any]) -> Any:
        """Gives a `DeleteRecord[]`."""
        return self._array(self._delete_class, deletes)

    def content(self, version: int, objects: Any) -> bytes:
        """Gives the content of a delete block: version, length, and the objects as Hudi serialises them."""
        data = bytes(self._jvm.org.apache.hudi.common.util.SerializationUtils.serialize(objects))
        return struct.pack(">ii", version, len(data)) + data
