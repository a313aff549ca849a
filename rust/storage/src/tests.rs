#![allow(clippy::unwrap_used)]
use std::io::{Read, Write};

use parquet::file::reader::{ChunkReader, Length};

use super::*;
use hoodoo_runtime::error::ErrorKind;

fn each(check: impl Fn(Storage)) {
    let folder = tempfile::tempdir().unwrap();
    check(Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap());
    let unique = format!("memory://{:?}/t", std::thread::current().id());
    check(Storage::open(&unique, &StorageOptions::new()).unwrap());
}

#[test]
fn nothing_is_changed_in_an_object_store_once_the_check_fails() {
    let lost = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_lost = lost.clone();
    let store = Storage::open("memory://checked/t", &StorageOptions::new()).unwrap();
    let checked = store.checked(move || match is_lost.load(std::sync::atomic::Ordering::SeqCst) {
        true => Err(hoodoo_runtime::error::Error::lock("lost")),
        false => Ok(()),
    });
    checked.create("a", "one").unwrap();
    checked.create("b", "one").unwrap();
    lost.store(true, std::sync::atomic::Ordering::SeqCst);
    let failed = [
        checked.create("c", "two"),
        checked.replace("a", "two"),
        checked.writer("a").map(|_| ()),
        checked.delete("a").map(|_| ()),
        checked.delete_all(&["a", "b"]),
        checked.delete_folder(""),
    ];
    assert!(failed.into_iter().all(|done| done.unwrap_err().kind() == ErrorKind::Lock));
    assert_eq!((checked.read("a").unwrap(), store.read("b").unwrap()), ("one".into(), "one".into()));
    store.replace("a", "two").unwrap();
}

#[test]
fn create_is_exclusive() {
    each(|s| {
        s.create("a/b", "one").unwrap();
        assert_eq!(s.create("a/b", "two").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(s.read("a/b").unwrap(), "one");
        s.replace("a/b", "two").unwrap();
        assert_eq!(s.read("a/b").unwrap(), "two");
        assert_eq!(s.read("a/none").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(s.delete("a/b").unwrap());
        assert!(s.head("a/b").unwrap().is_none());
    });
}

#[test]
fn a_file_is_moved_into_a_folder_that_is_made() {
    each(|s| {
        let mut file = s.writer(".hoodie/.temp/1/a").unwrap();
        file.write_all(b"one").unwrap();
        file.finish().unwrap();
        s.move_file(".hoodie/.temp/1/a", "new/folder/b").unwrap();
        assert_eq!(s.read("new/folder/b").unwrap(), "one");
        s.create("c", "two").unwrap();
        s.move_file("c", "new/folder/b").unwrap();
        assert_eq!(s.read("new/folder/b").unwrap(), "two");
        assert_eq!(s.move_file("none", "d").unwrap_err().kind(), ErrorKind::NotFound);
        s.sync().unwrap();
    });
}

#[test]
fn odd_partition_names_survive() {
    each(|s| {
        for folder in ["city=a b", "p%2F1", "ä ö", "x=1/y=#2", "a+b&c;d", "#3", "part=#4"] {
            let path = format!("{folder}/f.parquet");
            s.create(&path, "x").unwrap();
            assert_eq!(s.list(folder).unwrap().files.first().unwrap().path, path);
        }
        let all = s.list_recursive("").unwrap();
        assert_eq!(all.len(), 7, "{all:?}");
        assert_eq!(s.list("").unwrap().folders.len(), 7);
        assert_eq!(s.list("x=1").unwrap().folders, ["x=1/y=#2"]);
    });
}

#[test]
fn a_file_is_seen_when_finished() {
    each(|s| {
        let mut w = s.writer("p/data").unwrap();
        let block = vec![7u8; 3 << 20];
        for _ in 0..8 {
            w.write_all(&block).unwrap();
        }
        assert!(s.head("p/data").unwrap().is_none());
        assert_eq!(w.finish().unwrap(), 24 << 20);
        let r = s.reader("p/data", 24 << 20).unwrap();
        assert_eq!(r.len(), 24 << 20);
        assert_eq!(r.get_bytes((24 << 20) - 2, 2).unwrap().as_ref(), &[7, 7]);
        assert!(r.get_bytes(24 << 20, 1).is_err());
        let mut rest = Vec::new();
        r.get_read(1 << 20).unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 23 << 20);
        let dropped = s.writer("p/dropped").unwrap();
        drop(dropped);
        assert_eq!(s.list("p").unwrap().files.len(), 1);
    });
}

#[test]
fn a_local_file_has_what_was_written_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let s = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let content: Vec<u8> = (0..9u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
    // Around the chunks that go to the disk, and around the room that is asked for ahead.
    for size in [0, 1, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, (2 << 20) + 7, 4 << 20, content.len() - 3] {
        let content = content.get(..size).unwrap();
        for chunk in [1_000, 700_000, 9 << 20] {
            let mut w = s.writer("p/data").unwrap();
            content.chunks(chunk).for_each(|c| w.write_all(c).unwrap());
            assert_eq!(w.written(), size as u64);
            assert_eq!(w.finish().unwrap(), size as u64);
            assert!(s.read("p/data").unwrap() == content, "{size} bytes in chunks of {chunk}");
            // Some of the chunks from a reader.
            for s in [&s, &Storage::open("memory://copied/t", &StorageOptions::new()).unwrap()] {
                let mut w = s.writer("p/data").unwrap();
                for (number, mut c) in content.chunks(chunk).enumerate() {
                    match number % 3 {
                        0 => w.write_all(c).unwrap(),
                        _ => {
                            let length = c.len() as u64;
                            w.copy_from(&mut c, length).unwrap();
                        }
                    }
                }
                assert_eq!(w.written(), size as u64);
                assert_eq!(w.finish().unwrap(), size as u64);
                assert!(s.read("p/data").unwrap() == content, "{size} bytes in chunks of {chunk}");
                let mut w = s.writer("p/short").unwrap();
                assert!(w.copy_from(&mut &b"too few"[..], 8).is_err());
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder.path().join("p")).unwrap().count(), 1);
}

#[test]
fn writers_of_one_local_file_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let s = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let names = || {
        let entries = std::fs::read_dir(folder.path().join("p")).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let (mut one, mut two, mut dropped) =
        (s.writer("p/data").unwrap(), s.writer("p/data").unwrap(), s.writer("p/data").unwrap());
    one.write_all(&[1; 3 << 20]).unwrap();
    two.write_all(&[2; 1 << 20]).unwrap();
    dropped.write_all(&[3; 1 << 20]).unwrap();
    assert_eq!(names(), ["data#1", "data#2", "data#3"]);
    drop(dropped);
    one.finish().unwrap();
    two.finish().unwrap();
    assert_eq!(names(), ["data"]);
    assert!(s.read("p/data").unwrap() == vec![2; 1 << 20]);
    s.create("p/file", "x").unwrap();
    assert!(s.writer("p/file/data").is_err());
}

#[test]
fn side_files_are_deleted_with_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let s = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    for name in ["1.a", ".1.a.crc", "1.b", "1.b#1", "2.a", ".2.a.crc", "kept", ".kept.crc", "kept#1"] {
        std::fs::write(folder.path().join(name), "x").unwrap();
    }
    let (files, side_files) = s.list_names("").unwrap();
    assert_eq!(files.iter().filter(|f| !f.name().ends_with(".crc")).count(), 4, "{files:?}");
    s.delete_in_order("", &["1.a", "2.a"], &[vec!["1.b"], vec![]], &side_files).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".kept.crc", "kept", "kept#1"]);
}

#[test]
fn a_stale_checksum_goes() {
    let folder = tempfile::tempdir().unwrap();
    let s = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    s.create("x", "1").unwrap();
    std::fs::write(folder.path().join(".x.crc"), "old").unwrap();
    s.replace("x", "2").unwrap();
    assert!(!folder.path().join(".x.crc").exists());
}

#[test]
fn bad_locations_are_named() {
    let none = StorageOptions::new();
    assert_eq!(Storage::open("", &none).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(Storage::open("ftp://x/y", &none).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn readers_of_one_file_do_not_move_each_other() {
    let content: Vec<u8> = (0..400_000u32).map(|i| (i % 251) as u8).collect();
    each(|storage| {
        storage.create("f", content.clone()).unwrap();
        let reader = storage.reader("f", content.len() as u64).unwrap();
        std::thread::scope(|scope| {
            for start in 0..8usize {
                let (reader, content) = (&reader, &content);
                scope.spawn(move || {
                    for at in (0..200).map(|round| start * 1000 + round) {
                        let mut got = vec![0; 100_000];
                        reader.get_read(at as u64).unwrap().read_exact(&mut got).unwrap();
                        assert!(got == content.get(at..at + 100_000).unwrap());
                        let bytes = reader.get_bytes(at as u64, 5000).unwrap();
                        assert!(bytes == content.get(at..at + 5000).unwrap());
                    }
                });
            }
        });
    });
}

#[test]
fn an_update_needs_the_version_that_was_read() {
    let s = Storage::open("memory://update/t", &StorageOptions::new()).unwrap();
    assert!(s.read_versioned("x").unwrap().is_none());
    let first = s.create_versioned("x", "1").unwrap();
    let (content, read) = s.read_versioned("x").unwrap().unwrap();
    assert_eq!((content.as_ref(), &read), (b"1".as_ref(), &first));
    let second = s.update("x", "2", &first).unwrap();
    assert_eq!(s.update("x", "3", &first).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(s.read("x").unwrap(), "2");
    s.delete("x").unwrap();
    assert_eq!(s.update("x", "3", &second).unwrap_err().kind(), ErrorKind::Conflict);
    assert!(!s.exists("x").unwrap());

    let folder = tempfile::tempdir().unwrap();
    let disk = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let version = disk.create_versioned("x", "1").unwrap();
    assert_eq!(disk.update("x", "2", &version).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn failures_that_pass_may_be_tried_again() {
    let s = Storage::open("memory://passing/t", &StorageOptions::new()).unwrap();
    let answer = |status: &str| {
        let text = format!("after 10 retries: Server returned non-2xx status code: {status}: <Error/>");
        s.error("f", "writing", object_store::Error::Generic { store: "S3", source: text.into() })
    };
    for passing in ["503 Service Unavailable", "500 Internal Server Error", "429 Too Many Requests"] {
        let e = answer(passing);
        assert!(e.is_retryable() && e.kind() == ErrorKind::Storage, "{e}");
    }
    assert!(!answer("400 Bad Request").is_retryable());
}
