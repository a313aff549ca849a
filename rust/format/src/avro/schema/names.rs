//! The Avro names that Hudi derives from a table's name, and which names fields may have.

use super::java_letters::{is_digit, is_letter};

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

/// Whether Avro takes this as the name of a field. Java's library, and so Hudi, takes letters of all scripts.
pub(super) fn is_valid(name: &str) -> bool {
    let begins = |c: char| c == '_' || is_letter(c);
    name.starts_with(begins) && name.chars().all(|c| begins(c) || is_digit(c))
}

#[cfg(test)]
mod tests {
    use super::{is_valid, sanitize_name};

    #[test]
    fn what_avro_does_not_take_becomes_underscores() {
        assert_eq!(sanitize_name("my-table.v1"), "my__table__v1");
        assert_eq!(sanitize_name("1_tab le"), "___tab__le");
        assert_eq!(sanitize_name("größe"), "gr____e");
    }

    #[test]
    fn fields_have_letters_of_all_scripts() {
        for name in ["a", "_", "_1", "größe", "日本", "b٣"] {
            assert!(is_valid(name), "{name}");
        }
        for name in ["", "1a", "٣b", "a b", "a-b", "a.b", "हिन्दी", "𝒳"] {
            assert!(!is_valid(name), "{name}");
        }
    }
}
