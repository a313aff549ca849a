//! The Avro names that Hudi derives from a table's name.

/// A name with everything that an Avro name may not contain replaced by two underscores, as Hudi does it.
pub(crate) fn sanitize_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        if c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()) {
            out.push(c);
        } else {
            out.push_str("__");
        }
    }
    out
}

/// The name of a table's Avro record.
pub fn record_name(table_name: &str) -> String {
    format!("{}_record", sanitize_name(table_name))
}

/// The namespace of a table's Avro record.
pub fn record_namespace(table_name: &str) -> String {
    format!("hoodie.{}", sanitize_name(table_name))
}

/// Whether Avro takes this as the name of a field.
pub(super) fn is_valid(name: &str) -> bool {
    !name.is_empty() && sanitize_name(name) == name
}

#[cfg(test)]
mod tests {
    use super::sanitize_name;

    #[test]
    fn what_avro_does_not_take_becomes_underscores() {
        assert_eq!(sanitize_name("my-table.v1"), "my__table__v1");
        assert_eq!(sanitize_name("1_tab le"), "___tab__le");
    }
}
