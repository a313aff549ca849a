//! Checks the history: all files of the current manifest, and that their rows match their names.

use super::{Repair, Report, is_about_content};
use crate::error::Result;
use crate::format::instant::Layout;
use crate::table::HudiTable;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, faults};

const RESTORE: &str = "Restore the file from a backup: no other file has these archived instants";

pub(super) fn check(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<()> {
    let (storage, config) = (table.storage(), timeline.config());
    if config.layout == Layout::V1 {
        for file in storage.list(&config.history_folder)?.files.iter().filter(|f| f.name().contains(".archive.")) {
            report.count("history files", 1);
            if file.size == 0 {
                report.error(&file.path, "an archive log is an empty file", RESTORE);
            }
        }
        let read = || -> Result<()> {
            let history = HistoryReader::new(storage, config).with_threads(table.threads()?);
            history.scan(TimeRange::all(), LoadMode::Action)?.try_for_each(|batch| batch.map(drop))
        };
        return match read() {
            Err(e) if is_about_content(&e) => {
                report.error(&config.history_folder, format!("the archive cannot be read: {e}"), RESTORE);
                Ok(())
            }
            other => other,
        };
    }
    // In tables that Hudi upgraded from version 6, file names have other times.
    let names_are_times = table.config().get("hoodie.table.initial.version") != Some("6");
    let is_active = |time: &str| timeline.instants().iter().any(|i| i.requested == time);
    let (checked, faults) = faults(storage, config, names_are_times, &is_active, table.threads()?)?;
    report.count("history files", checked);
    for fault in faults {
        if fault.is_harmless {
            report.warning(fault.path, fault.message, "The next archiving repairs it");
            report.repairable(Repair::Archive);
        } else {
            report.error(fault.path, fault.message, RESTORE);
        }
    }
    Ok(())
}
