//! What a reader of a remote file has fetched already.
//!
//! The Parquet reader asks for one page after the other, of many columns in turn. A request for each page would take
//! a round trip of tens of milliseconds. So more than what was asked for is fetched: little at first, four times as much
//! each time a reader goes on where a window ends that it has used well. A point read fetches little, a full scan in
//! large chunks.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// First read somewhere in the file. About what a round trip costs.
const FIRST: u64 = 256 << 10;
/// Most that one request fetches ahead.
const LARGEST: u64 = 8 << 20;
/// First read near the end: the footer holds the bloom filter, which is most of a megabyte.
pub(super) const TAIL: u64 = 1 << 20;
/// Most that is kept of one file.
const BUDGET: u64 = 32 << 20;

/// Pieces of one file.
pub(super) struct Windows {
    size: u64,
    cached: Mutex<CachedWindows>,
}

#[derive(Default)]
struct CachedWindows {
    /// The least recently used first.
    windows: Vec<Window>,
}

#[derive(Clone)]
struct Window {
    start: u64,
    bytes: Bytes,
    /// How much of it was asked for.
    used: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// From an offset within to the end.
    fn from(&self, start: u64) -> Option<Bytes> {
        let skip = usize::try_from(start.checked_sub(self.start)?).ok()?;
        (skip < self.bytes.len()).then(|| self.bytes.slice(skip..))
    }
}

impl Windows {
    pub(super) fn new(size: u64) -> Self {
        Self { size, cached: Mutex::default() }
    }

    /// The same for a file of which the end is known.
    pub(super) fn with_end(size: u64, end: Bytes) -> Self {
        let windows = Self::new(size);
        windows.lock().keep(Window { start: size.saturating_sub(end.len() as u64), bytes: end, used: 0 });
        windows
    }

    /// Keeps nothing of what was fetched.
    pub(super) fn forget(&self) {
        self.lock().windows.clear();
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// At least `wanted` bytes at an offset, if the file has them; more when more is there already. `fetch` gets a
    /// range of the file.
    pub(super) fn read<E>(
        &self,
        start: u64,
        wanted: u64,
        fetch: impl FnOnce(Range<u64>) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let wanted = wanted.min(self.size.saturating_sub(start));
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let (known, range) = {
            let mut cached = self.lock();
            match cached.covering(start, wanted) {
                Some(window) if window.end() >= start + wanted => return Ok(window.from(start).unwrap_or_default()),
                // The end of what is known, which the rest is put behind.
                Some(window) => (window.from(start).unwrap_or_default(), self.go_on(&cached, &window, start + wanted)),
                None => match cached.ending_at(start) {
                    Some(window) => (Bytes::new(), self.go_on(&cached, &window, start + wanted)),
                    None => (Bytes::new(), self.begin(&cached, start, wanted)),
                },
            }
        };
        let first = if known.is_empty() { range.start } else { start };
        let fetched = fetch(range)?;
        let bytes = if known.is_empty() {
            fetched
        } else {
            let mut joined = BytesMut::with_capacity(known.len() + fetched.len());
            joined.extend_from_slice(&known);
            joined.extend_from_slice(&fetched);
            joined.freeze()
        };
        let window = Window { start: first, bytes, used: wanted };
        let asked = window.from(start).unwrap_or_default();
        self.lock().keep(window);
        Ok(asked)
    }

    /// Where nothing was read before.
    fn begin(&self, cached: &CachedWindows, start: u64, wanted: u64) -> Range<u64> {
        let end = start + wanted.max(FIRST);
        match self.size.saturating_sub(TAIL) {
            // A small file, or the footer of a large one: its end in one request.
            tail if start >= tail => tail..self.size,
            _ => start..cached.until_known(start + wanted, end.min(self.size)),
        }
    }

    /// Behind a window, up to `needed` at least.
    fn go_on(&self, cached: &CachedWindows, window: &Window, needed: u64) -> Range<u64> {
        let length = window.bytes.len() as u64;
        let well_used = window.used >= length / 4 * 3;
        let ahead = if well_used { 4 * length } else { length }.clamp(FIRST, LARGEST);
        let end = (window.end() + ahead).max(needed).min(self.size);
        window.end()..cached.until_known(needed, end)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedWindows> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedWindows {
    /// The window that reaches furthest from an offset within it.
    fn covering(&mut self, at: u64, wanted: u64) -> Option<Window> {
        let inside = self.windows.iter().enumerate().filter(|(_, w)| w.start <= at && at < w.end());
        let position = inside.max_by_key(|(_, w)| w.end())?.0;
        let mut window = self.windows.remove(position);
        window.used += wanted.min(window.end() - at);
        self.windows.push(window.clone());
        Some(window)
    }

    fn ending_at(&self, at: u64) -> Option<Window> {
        self.windows.iter().find(|w| w.end() == at).cloned()
    }

    /// The end of a range to fetch, or where it meets what is known already, if that is enough.
    fn until_known(&self, needed: u64, end: u64) -> u64 {
        let next = self.windows.iter().map(|w| w.start).filter(|start| *start >= needed).min();
        next.map_or(end, |next| end.min(next))
    }

    fn keep(&mut self, window: Window) {
        // Shorter ones inside of it have served.
        self.windows.retain(|w| w.start < window.start || w.end() > window.end());
        self.windows.push(window);
        let mut total: u64 = self.windows.iter().map(|w| w.bytes.len() as u64).sum();
        while total > BUDGET && self.windows.len() > 1 {
            total -= self.windows.remove(0).bytes.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// A file whose bytes are their positions, and what was fetched of it.
    struct File {
        content: Bytes,
        windows: Windows,
        fetched: Mutex<Vec<Range<u64>>>,
    }

    impl File {
        fn new(size: usize) -> Self {
            let content: Vec<u8> = (0..size).map(|i| ((i * 31) ^ (i >> 8)) as u8).collect();
            Self { content: content.into(), windows: Windows::new(size as u64), fetched: Mutex::default() }
        }

        fn check(&self, start: usize, wanted: usize) {
            let fetch = |r: Range<u64>| {
                self.fetched.lock().unwrap().push(r.clone());
                Ok::<_, ()>(self.content.slice(r.start as usize..r.end as usize))
            };
            let got = self.windows.read(start as u64, wanted as u64, fetch).unwrap();
            assert!(got.len() >= wanted.min(self.content.len() - start), "{} of {wanted} at {start}", got.len());
            assert_eq!(got, self.content.slice(start..start + got.len()), "at {start}");
        }

        fn requests(&self) -> (usize, u64) {
            let fetched = self.fetched.lock().unwrap();
            (fetched.len(), fetched.iter().map(|r| r.end - r.start).sum())
        }
    }

    #[test]
    fn a_small_file_is_one_request() {
        let file = File::new(900_000);
        for (start, wanted) in [(899_992, 8), (700_000, 199_992), (0, 40), (40, 300_000), (600_000, 300_000)] {
            file.check(start, wanted);
        }
        assert_eq!(file.requests(), (1, 900_000));
    }

    #[test]
    fn a_scan_page_by_page_takes_few_requests_and_each_byte_once() {
        let size = 40 << 20;
        let file = File::new(size);
        let mut at = 0;
        while at < size {
            file.check(at, 30);
            file.check(at + 30, 100_000);
            at += 100_030;
        }
        let (requests, bytes) = file.requests();
        assert!(requests < 12 && bytes < size as u64 + (1 << 20), "{requests} requests, {bytes} bytes");
    }

    #[test]
    fn columns_in_turn_are_read_about_once() {
        let (columns, length) = (10, 4 << 20);
        let file = File::new(columns * length);
        for page in 0..length / 65_536 {
            for column in 0..columns {
                file.check(column * length + page * 65_536, 65_536);
            }
        }
        let (requests, bytes) = file.requests();
        assert!(requests < 80 && bytes < (columns * length) as u64 * 3 / 2, "{requests} requests, {bytes} bytes");
    }

    #[test]
    fn single_pages_fetch_little_and_old_ones_are_given_up() {
        let file = File::new(200 << 20);
        for i in 0..180 {
            file.check(i << 20, 20_000);
        }
        assert_eq!(file.requests(), (180, 180 * FIRST));
        let cached: u64 = file.windows.lock().windows.iter().map(|w| w.bytes.len() as u64).sum();
        assert!(cached <= BUDGET);
    }

    #[test]
    fn pages_here_and_there_do_not_grow_windows() {
        let file = File::new(100 << 20);
        for i in 0..40 {
            file.check(i * 250_000, 100_000);
        }
        let (requests, bytes) = file.requests();
        assert!(requests <= 40 && bytes < 11_000_000, "{requests} requests, {bytes} bytes");
    }

    #[test]
    fn any_reads_give_the_right_bytes() {
        let file = File::new(3 << 20);
        let mut seed = 7u64;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = (seed >> 33) as usize % (3 << 20);
            file.check(start, (seed >> 13) as usize % (1 << 19));
        }
    }

    #[test]
    fn what_cannot_be_fetched_is_asked_for_again() {
        let file = File::new(1000);
        assert!(file.windows.read(0, 10, |_| Err::<Bytes, _>("gone")).is_err());
        file.check(0, 10);
    }
}
