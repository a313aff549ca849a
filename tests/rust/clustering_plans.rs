//! Plans of clusterings are those that real Hudi made of the same tables by the same options.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64_simd::STANDARD;
use flate2::read::ZlibDecoder;
use hoodoo::ErrorKind;
use hoodoo::format::avro::metadata::to_json;
use hoodoo::format::java::hash_bucket;
use hoodoo::services::clustering::{TARGET_BYTES, due, plan};
use hoodoo::storage::{Storage, StorageOptions};
use hoodoo::table::{HudiTable, Options};
use hoodoo::timeline::{Clock, TimeZone, parse_instant_ms};
use serde_json::Value;

const GOLDEN: &str = include_str!("../fixtures/clustering/hudi_1_2.json");

/// Shows one time for ever.
struct Stopped(i64);

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        self.0
    }

    fn sleep(&self, _: Duration) {}
}

/// Lays a recorded table out: files of the right size, without content.
fn lay_out(table: &Value, folder: &Path) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let create = |name: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (name, size) in table["files"].as_object().unwrap() {
        std::fs::File::create(create(name)).unwrap().set_len(size.as_u64().unwrap()).unwrap();
    }
    std::fs::write(create(".hoodie/hoodie.properties"), text(&table["properties"])).unwrap();
    for (name, packed) in table["timeline"].as_object().unwrap() {
        let packed = STANDARD.decode_to_vec(text(packed)).unwrap();
        let mut body = Vec::new();
        ZlibDecoder::new(packed.as_slice()).read_to_end(&mut body).unwrap();
        std::fs::write(create(&format!(".hoodie/timeline/{name}")), body).unwrap();
    }
}

fn planned(folder: &Path, case: &Value) -> hoodoo::Result<Option<Value>> {
    let options = case["options"].as_object().unwrap().iter();
    let options: BTreeMap<String, String> =
        options.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
    let storage = Storage::open(folder.to_str().unwrap(), &StorageOptions::new())?;
    let now = format!("20270101{:02}3000000", case["hour"].as_u64().unwrap());
    let clock = Stopped(parse_instant_ms(&now, TimeZone::Local).unwrap());
    let table = HudiTable::open_in(storage, Options::new(options)?, Arc::new(clock))?;
    if !due(&table, &table.timeline()?)? {
        return Ok(None);
    }
    let made = plan(&table)?.map(|planned| to_json(&planned.metadata).to_string());
    let made = made.map(|json| json.replace(&folder.canonicalize().unwrap().display().to_string(), "TABLE"));
    Ok(made.map(|json| serde_json::from_str(&json).unwrap()))
}

/// Brings to one form what is in no order in Hudi itself: groups of one slice whose file ids fall into one bucket.
fn in_order(plan: &mut Value) {
    let groups = plan["clusteringPlan"]["inputGroups"].as_array_mut().unwrap();
    for at in 1..groups.len() {
        let key = |g: &Value| {
            let slices = g["slices"].as_array().unwrap();
            let id = slices[0]["fileId"].as_str().unwrap().to_owned();
            (slices[0]["partitionPath"].to_string(), hash_bucket(&id, 16), slices.len(), id)
        };
        let (one, other) = (key(&groups[at - 1]), key(&groups[at]));
        if one.2 == 1 && (&one.0, one.1, one.2) == (&other.0, other.1, other.2) && one.3 > other.3 {
            groups.swap(at - 1, at);
        }
    }
    // Slices of log files alone count alike, and keep the order that they were come upon.
    for group in groups {
        let slices = group["slices"].as_array_mut().unwrap();
        for at in 1..slices.len() {
            let id = |s: &Value| s["fileId"].as_str().unwrap().to_owned();
            let alike = slices[at - 1]["dataFilePath"] == "" && slices[at]["dataFilePath"] == "";
            let (one, other) = (id(&slices[at - 1]), id(&slices[at]));
            if alike && hash_bucket(&one, 16) == hash_bucket(&other, 16) && one > other {
                slices.swap(at - 1, at);
            }
        }
    }
}

#[test]
fn plans_are_those_of_hudi() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, table) in golden["tables"].as_object().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        lay_out(table, folder.path());
        for (case, recorded) in table["cases"].as_object().unwrap() {
            if recorded["plan"].get("error").is_some() {
                continue;
            }
            let made = planned(folder.path(), recorded).unwrap_or_else(|e| panic!("{name}, {case}: {e}"));
            let mut expected = recorded["plan"].get("metadata").cloned();
            let mut made = made;
            if let Some(made) = &mut made {
                // The one entry that Hudi does not write.
                let params = made["clusteringPlan"]["strategy"]["strategyParams"].as_object_mut().unwrap();
                assert!(params.remove(TARGET_BYTES).is_some(), "{name}, {case}");
                in_order(made);
            }
            if let Some(expected) = &mut expected {
                in_order(expected);
            }
            compared += 1;
            if made != expected {
                wrong.push(format!("{name}, {case}:\n  {made:?}\n  {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 90, "{compared}");
}

#[test]
fn what_hudi_fails_at_is_refused_or_done() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let table = &golden["tables"]["cow_flat_v9"];
    let case = &table["cases"]["by commit"];
    assert!(case["plan"]["error"].as_str().unwrap().contains("NullPointerException"));
    let folder = tempfile::tempdir().unwrap();
    lay_out(table, folder.path());
    let made = planned(folder.path(), case).unwrap().unwrap();
    let newest = table["timeline"].as_object().unwrap().keys().map(|name| &name[..17]).max().unwrap();
    assert_eq!(made["clusteringPlan"]["extraMetadata"]["clustering.commit.checkpoint"], newest);
    assert_eq!(made["clusteringPlan"]["inputGroups"][0]["slices"].as_array().unwrap().len(), 8);
    let mut without = case.clone();
    without["options"].as_object_mut().unwrap().remove("hoodie.clustering.plan.strategy.earliest.commit.to.cluster");
    assert_eq!(planned(folder.path(), &without).unwrap_err().kind(), ErrorKind::InvalidOption);
}
