//! The fields of records: how their values lie in the bytes, and what becomes of them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};

use super::bytes::{Damage, boolean, bytes, int, long, position, take};
use crate::avro::datum::{DatumSchema, Measure, Node};
use hoodoo_runtime::error::Result as Checked;

/// Fixed values up to this size. The general decoder has a limit for what nulls take in a column, a thousand bytes for
/// each byte of the records, which nulls of these never reach.
const MOST_FIXED: usize = 512;

/// The most bytes that a null record takes in its columns, for the same reason.
const MOST_NULL: u64 = 1000;
/// So deep may records be in records.
const MOST_NESTED: usize = 16;
/// So many fields are looked at, those of records in records counted too.
const MOST_FIELDS: usize = 1 << 16;

/// Which branch of a field's union is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    Never,
    First,
    Second,
}

/// How the values of a field lie in the records, and what becomes of them.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Fixed(usize),
    /// With the size of each, or else with their length before them.
    Decimal128(Option<usize>),
    Decimal256(Option<usize>),
    Symbol(Arc<[String]>),
    /// A record of such fields.
    Record(Arc<[Field]>),
    /// A type by its node, of values that are not wanted.
    Other(usize),
}

impl Form {
    /// The form of a simple type.
    fn of(node: &Node) -> Option<Self> {
        Some(match node {
            Node::Boolean => Self::Boolean,
            Node::Int => Self::Int,
            Node::Long => Self::Long,
            Node::Float => Self::Float,
            Node::Double => Self::Double,
            Node::Bytes | Node::String => Self::Bytes,
            Node::Fixed(size) if (1..=MOST_FIXED).contains(size) => Self::Fixed(*size),
            Node::Enum(symbols) => Self::Symbol(symbols.as_slice().into()),
            _ => return None,
        })
    }

    /// The form when it becomes a column of a type; none if another decoder would have to make it.
    fn into_column(self, node: &Node, column: &DataType) -> Option<Self> {
        use DataType as Type;
        let fits = match node {
            Node::Boolean => *column == Type::Boolean,
            Node::Int => matches!(column, Type::Int32 | Type::Date32 | Type::Time32(TimeUnit::Millisecond)),
            Node::Long => matches!(
                column,
                Type::Int64
                    | Type::Time64(TimeUnit::Microsecond)
                    | Type::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
            ),
            Node::Float => *column == Type::Float32,
            Node::Double => *column == Type::Float64,
            Node::String | Node::Enum(_) => *column == Type::Utf8,
            Node::Bytes => *column == Type::Binary,
            Node::Fixed(size) => matches!(column, Type::FixedSizeBinary(n) if usize::try_from(*n) == Ok(*size)),
            _ => false,
        };
        match (self, column) {
            (form, _) if fits => Some(form),
            (Self::Bytes, Type::Decimal128(..)) if *node == Node::Bytes => Some(Self::Decimal128(None)),
            (Self::Bytes, Type::Decimal256(..)) if *node == Node::Bytes => Some(Self::Decimal256(None)),
            (Self::Fixed(size), Type::Decimal128(..)) => Some(Self::Decimal128(Some(size))),
            (Self::Fixed(size), Type::Decimal256(..)) => Some(Self::Decimal256(Some(size))),
            _ => None,
        }
    }

    /// Passes over a value.
    pub(super) fn skip(&self, rest: &mut &[u8], skipper: &mut Skipper<'_>) -> Result<(), Damage> {
        match self {
            Self::Boolean => boolean(rest).map(drop),
            Self::Int => int(rest).map(drop),
            Self::Long => long(rest).map(drop),
            Self::Float => take(rest, 4).map(drop),
            Self::Double => take(rest, 8).map(drop),
            Self::Bytes | Self::Decimal128(None) | Self::Decimal256(None) => bytes(rest).map(drop),
            Self::Fixed(size) | Self::Decimal128(Some(size)) | Self::Decimal256(Some(size)) => {
                take(rest, *size).map(drop)
            }
            Self::Symbol(symbols) => position(rest, symbols.len(), Damage::Symbol).map(drop),
            Self::Other(node) => skipper.skip(*node, rest),
            // Only of what is wanted.
            Self::Record(_) => Err(Damage::Other),
        }
    }

    /// Bytes that a null of it takes in columns.
    fn width(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size as u64,
            Self::Decimal128(_) => 16,
            Self::Decimal256(_) => 32,
            Self::Record(fields) => fields.iter().map(|field| field.form.width()).fold(0, u64::saturating_add),
            _ => 8,
        }
    }
}

/// A field of the records, or of a record in them.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) null: Null,
    pub(super) form: Form,
    pub(super) wanted: bool,
}

/// Makes fields of a schema.
pub(super) struct Fields<'s> {
    schema: &'s DatumSchema,
    left: usize,
}

impl<'s> Fields<'s> {
    pub(super) fn new(schema: &'s DatumSchema) -> Self {
        Self { schema, left: MOST_FIELDS }
    }

    /// A field, and the column that it becomes if it is wanted; none if another decoder would have to make it.
    pub(super) fn field(&mut self, name: &str, node: usize, column: Option<&FieldRef>, depth: usize) -> Option<Field> {
        self.left = self.left.checked_sub(1)?;
        let (null, node) = match self.schema.node(node) {
            Node::Union(branches) => match branches.as_slice() {
                [null, value] if *self.schema.node(*null) == Node::Null => (Null::First, *value),
                [value, null] if *self.schema.node(*null) == Node::Null => (Null::Second, *value),
                _ => (Null::Never, node),
            },
            _ => (Null::Never, node),
        };
        let form = match column {
            Some(column) if column.name() != name || column.is_nullable() != (null != Null::Never) => return None,
            Some(column) => self.wanted(node, column.data_type(), depth)?,
            None => Form::of(self.schema.node(node)).unwrap_or(Form::Other(node)),
        };
        Some(Field { name: name.to_owned(), null, form, wanted: column.is_some() })
    }

    fn wanted(&mut self, node: usize, column: &DataType, depth: usize) -> Option<Form> {
        let schema = self.schema;
        let Node::Record(nodes) = schema.node(node) else {
            return Form::of(schema.node(node))?.into_column(schema.node(node), column);
        };
        let DataType::Struct(columns) = column else { return None };
        let names: HashSet<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        if depth >= MOST_NESTED || nodes.is_empty() || nodes.len() != columns.len() || names.len() != nodes.len() {
            return None;
        }
        let each = nodes.iter().zip(columns);
        let fields = each.map(|((name, node), column)| self.field(name, *node, Some(column), depth + 1));
        let form = Form::Record(fields.collect::<Option<_>>()?);
        (form.width() <= MOST_NULL).then_some(form)
    }
}

/// Passes over values of any type.
pub(super) struct Skipper<'s>(Option<Measure<'s>>);

impl<'s> Skipper<'s> {
    /// For records of so many bytes.
    ///
    /// # Errors
    /// `Unsupported` for values without end.
    pub(super) fn new(schema: &'s DatumSchema, fields: &[Field], bytes: usize) -> Checked<Self> {
        let needed = fields.iter().any(|field| matches!(field.form, Form::Other(_)));
        Ok(Self(if needed { Some(Measure::of_records(schema, bytes)?) } else { None }))
    }

    fn skip(&mut self, node: usize, rest: &mut &[u8]) -> Result<(), Damage> {
        self.0.as_mut().and_then(|measure| measure.skip(node, rest)).ok_or(Damage::Other)
    }
}
