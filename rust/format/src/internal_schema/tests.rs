#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;

const OLD: &str = r#"{"max_column_id":9,"version_id":0,"type":"record","fields":[{"id":0,"name":"id","optional":true,"type":"int"},{"id":1,"name":"c","optional":true,"type":"string","doc":"d"},{"id":2,"name":"d","optional":false,"type":"decimal_fixed(10, 2)[5]"},{"id":3,"name":"st","optional":true,"type":{"type":"record","fields":[{"id":6,"name":"x","optional":true,"type":"int"}]}},{"id":4,"name":"arr","optional":true,"type":{"type":"array","element_id":7,"element":{"type":"record","fields":[{"id":8,"name":"u","optional":true,"type":"int"}]},"element_optional":true}},{"id":5,"name":"m","optional":true,"type":{"type":"map","key_id":9,"key":"string","value_id":10,"value":"long","value_optional":true}}]}"#;

#[test]
fn a_schema_keeps_every_byte() {
    let schema = InternalSchema::parse(OLD).unwrap();
    assert_eq!(schema.to_text(), OLD);
    let history = InternalSchema::history_text(&[schema.clone(), schema.clone()]);
    assert_eq!(history, format!(r#"{{"schemas":[{OLD},{OLD}]}}"#));
    assert_eq!(InternalSchema::parse_history(history.as_bytes()).unwrap(), [schema.clone(), schema]);
    for bad in
        ["", "{}", r#"{"fields":[{"name":"a"}]}"#, r#"{"type":"record","fields":[{"id":1,"name":"a","type":3}]}"#]
    {
        assert!(InternalSchema::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn names_follow_ids() {
    let old = InternalSchema::parse(OLD).unwrap();
    assert_eq!(ColumnNames::between(&old, &old), None);
    let text = OLD.replace(r#""name":"c""#, r#""name":"cc""#).replace(r#""id":2,"name":"d""#, r#""id":11,"name":"d""#);
    let new = InternalSchema::parse(&text.replace(r#""name":"u""#, r#""name":"w""#)).unwrap();
    let names = ColumnNames::between(&old, &new).unwrap();
    assert_eq!((names.name_of("c"), names.name_of("d"), names.name_of("id")), ("cc", "_hoodoo_dropped_2", "id"));
    assert_eq!(names.inside("arr").unwrap().element().unwrap().name_of("u"), "w");
    let history = SchemaHistory::new(InternalSchema { version: 9, ..new.clone() }, Some(vec![old.clone()]));
    let unchanged = ["id", "cc", "d", "st", "arr", "m"].map(|column| history.is_unchanged(column));
    assert_eq!(unchanged, [true, false, false, true, false, true]);
    assert_eq!(history.names_at("8").unwrap().map(AsRef::as_ref), Some(&names));
    assert!(history.names_at("9").unwrap().is_none());
    let only = SchemaHistory::new(InternalSchema { version: 9, ..new }, None);
    assert!(only.names_at("8").is_err() && only.names_at("10").unwrap().is_none());
    let avro = r#"{"type":"record","name":"r","fields":[{"name":"c","type":["null","string"]},{"name":"arr","type":["null",{"type":"array","items":["null",{"type":"record","name":"arr","fields":[{"name":"u","type":"int"}]}]}]}]}"#;
    let renamed = names.of_avro(avro).unwrap();
    assert_eq!(renamed, avro.replace(r#""name":"c""#, r#""name":"cc""#).replace(r#""name":"u""#, r#""name":"w""#));
    let twice = avro.replace(r#""string""#, r#""arr""#);
    assert!(names.of_avro(&twice).is_err());
}

fn table() -> InternalSchema {
    let inner = vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)];
    let element = DataType::Struct(vec![Field::new("u", DataType::Int32, true)].into());
    let columns = Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("c", DataType::Utf8, true),
        Field::new("st", DataType::Struct(inner.into()), true),
        Field::new("arr", DataType::List(Arc::new(Field::new("element", element, true))), true),
    ]);
    let first = InternalSchema::first(&columns).unwrap();
    assert_eq!(first.columns().unwrap(), columns);
    first
}

fn names(schema: &InternalSchema) -> Vec<String> {
    schema.columns().unwrap().fields().iter().map(|field| field.name().clone()).collect()
}

#[test]
fn ids_are_given_as_hudi_gives_them() {
    let schema = table();
    let ids: Vec<_> = schema.fields.iter().map(|field| (field.name.as_str(), field.id)).collect();
    assert_eq!(ids[4..], [("_hoodie_file_name", 4), ("id", 5), ("c", 6), ("st", 7), ("arr", 8)]);
    assert_eq!(schema.max_column_id, 12);
    let json = schema.to_text();
    assert!(json.contains(r#"{"id":9,"name":"x","#) && json.contains(r#""element_id":11,"#), "{json}");
}

#[test]
fn each_change_sees_those_before_it() {
    let add = |name: &str, place| SchemaEdit::Add { name: name.into(), data_type: DataType::Int32, doc: None, place };
    let rename = |name: &str, to: &str| SchemaEdit::Rename { name: name.into(), to: to.into() };
    let drop = |name: &str| SchemaEdit::Drop { name: name.into() };
    let edits = [
        rename("c", "cc"),
        add("c", ColumnPlace::After("id".into())),
        drop("st.x"),
        add("arr.element.w", ColumnPlace::First),
        rename("st", "address"),
        SchemaEdit::Move { name: "arr".into(), place: ColumnPlace::First },
        SchemaEdit::Change {
            name: "c".into(),
            data_type: Some(DataType::Int64),
            nullable: None,
            doc: Some("n".into()),
        },
    ];
    let edited = table().edited(&edits).unwrap();
    assert_eq!(names(&edited), ["arr", "id", "c", "cc", "address"]);
    assert_eq!(edited.max_column_id, 14);
    let differ = ColumnNames::between(&table(), &edited).unwrap();
    assert_eq!((differ.name_of("c"), differ.name_of("st")), ("cc", "address"));
    assert_eq!(differ.inside("st").unwrap().name_of("x"), "_hoodoo_dropped_9");
    assert!(differ.inside("arr").is_none());
    for wrong in [
        rename("none", "a"),
        rename("c", "ID"),
        rename("c", "a.b"),
        rename("c", "_hoodie_x"),
        drop("_hoodie_record_key"),
        drop("st.none"),
        add("C", ColumnPlace::Last),
        add("c.inner", ColumnPlace::Last),
        add("n", ColumnPlace::After("none".into())),
        SchemaEdit::Change { name: "id".into(), data_type: Some(DataType::Boolean), nullable: None, doc: None },
        SchemaEdit::Change { name: "c".into(), data_type: None, nullable: Some(false), doc: None },
    ] {
        assert!(table().edited(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
    let local = Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true);
    assert!(InternalSchema::first(&Schema::new(vec![local.clone()])).is_err());
    let columns = Schema::new(vec![local]);
    assert_eq!(InternalSchema::of_columns(&columns).unwrap().columns().unwrap(), columns);
}

#[test]
fn writes_add_columns_and_widen_them() {
    let schema = table();
    let columns = schema.columns().unwrap();
    assert_eq!(schema.evolved(&columns).unwrap(), None);
    let mut fields: Vec<Field> = columns.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields[0] = Field::new("id", DataType::Int64, true);
    fields.push(Field::new("n", DataType::Decimal128(5, 1), true));
    let wider = Schema::new(fields);
    let evolved = schema.evolved(&wider).unwrap().unwrap();
    assert_eq!(evolved.columns().unwrap(), wider);
    assert!(evolved.to_text().contains(r#"{"id":13,"name":"n","optional":true,"type":"decimal(5, 1)"}"#));
    assert_eq!(ColumnNames::between(&schema, &evolved), None);
}

#[test]
fn files_of_before_have_the_types_of_their_commits() {
    let columns = |id: DataType, x: DataType, with_c: bool| {
        let st = Field::new("st", DataType::Struct(vec![Field::new("x", x, true)].into()), true);
        let c = with_c.then(|| Field::new("c", DataType::Utf8, true));
        Schema::new([Some(Field::new("id", id, true)), c, Some(st)].into_iter().flatten().collect::<Vec<_>>())
    };
    let types = |schema: &InternalSchema| {
        let columns = schema.columns().unwrap();
        let DataType::Struct(st) = columns.field_with_name("st").unwrap().data_type().clone() else { panic!() };
        let id = columns.field_with_name("id").unwrap().data_type().clone();
        (schema.version, schema.max_column_id, id, st[0].data_type().clone())
    };
    let table = InternalSchema::first(&columns(DataType::Float64, DataType::Int64, true)).unwrap();
    let largest = table.max_column_id;
    let commits = [
        // Of a service that names other columns, of which a double cannot come.
        ("10".to_owned(), columns(DataType::Boolean, DataType::Int32, false)),
        ("20".to_owned(), columns(DataType::Int32, DataType::Int32, true)),
        ("30".to_owned(), columns(DataType::Int64, DataType::Int64, true)),
        ("35".to_owned(), Schema::empty()),
        ("40".to_owned(), columns(DataType::Int32, DataType::Int64, false)),
        ("50".to_owned(), columns(DataType::Float64, DataType::Int64, true)),
    ];
    let history = SchemaHistory::before_ids(table.clone(), &commits).unwrap();
    let (int, long) = (DataType::Int32, DataType::Int64);
    let expected = [
        (50, largest, DataType::Float64, long.clone()),
        (40, largest, int.clone(), long.clone()),
        (30, largest, long.clone(), long),
        (0, largest, int.clone(), int),
    ];
    assert_eq!(history.newest_first().map(types).collect::<Vec<_>>(), expected);
    assert!(history.newest_first().all(|schema| names(schema) == names(&table)));
    assert_eq!(history.table(), &InternalSchema { version: 50, ..table.clone() });
    // The last one kept the types of before.
    let history = SchemaHistory::before_ids(table.clone(), &commits[..5]).unwrap();
    assert_eq!(history.table(), &InternalSchema { version: 41, ..table.clone() });
    for commits in [&commits[5..], &[]] {
        let history = SchemaHistory::before_ids(table.clone(), commits).unwrap();
        assert_eq!(history.newest_first().collect::<Vec<_>>(), [&table]);
    }
}
