//! Groups of slices whose ranges overlap, and how many files a point query has to open. Pure.
//!
//! Two files overlap if they may share more than a single value of the first column: `[1, 5]` and `[3, 9]` do, `[1, 5]`
//! and `[5, 9]` do not, because files that were cut from sorted rows touch like that, and sorting them again gains
//! nothing. If both have the same single value of a column, the next column decides in the same way. So files that one
//! clustering cut from sorted rows never overlap, whatever the values. A file with one value that touches the edge of
//! another is not rewritten.
//!
//! Overlap is transitive: a file that overlaps one of a group belongs to the group. Null sorts before everything. Files
//! without a known range (such as slices of log files only) may overlap each other: they form a group.

use std::collections::HashMap;

/// The range of a column in one file: keys that compare as the values do, and the values as strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ColumnRange {
    /// Minimum, as a key.
    pub min: Vec<u8>,
    /// Maximum, as a key.
    pub max: Vec<u8>,
    /// Minimum, as a string; `None` for null.
    pub min_string: Option<String>,
    /// Maximum, as a string; `None` for null.
    pub max_string: Option<String>,
}

/// The ranges of columns from the footer of a base file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileRanges {
    /// Rows.
    pub rows: u64,
    /// The range of each column; `None` if the footer does not have it.
    pub columns: Vec<Option<ColumnRange>>,
    /// Nulls of each column; `None` if the footer does not have it.
    pub nulls: Vec<Option<u64>>,
}

/// Ranges by the path of the base file.
pub(crate) type Ranges = HashMap<String, FileRanges>;

/// Number of files that may have a value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Depth {
    /// Maximum over all values.
    pub max: usize,
    /// Mean over the minimum and maximum values of all files.
    pub mean: f64,
}

/// Returns the sets of overlapping items, each sorted by range, and the items without a known range.
pub(super) fn overlapping(files: &[Option<&FileRanges>]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let known = |i: &usize| column(files, *i, 0).is_some();
    let (known, unknown): (Vec<usize>, Vec<usize>) = (0..files.len()).partition(known);
    (components(files, known, 0), unknown)
}

fn column<'a>(files: &[Option<&'a FileRanges>], file: usize, at: usize) -> Option<&'a ColumnRange> {
    files.get(file).copied().flatten()?.columns.get(at)?.as_ref()
}

fn components(files: &[Option<&FileRanges>], mut items: Vec<usize>, at: usize) -> Vec<Vec<usize>> {
    items.sort_by_key(|i| (column(files, *i, at), *i));
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut reach: Option<&[u8]> = None;
    for item in items {
        let Some(range) = column(files, item, at) else { continue };
        match found.last_mut() {
            Some(last) if reach.is_some_and(|reach| range.min.as_slice() < reach) => last.push(item),
            _ => {
                found.push(vec![item]);
                reach = None;
            }
        }
        reach = reach.max(Some(&range.max));
    }
    if files.iter().flatten().any(|f| f.columns.len() > at + 1) { by_next_column(files, found, at) } else { found }
}

/// Files with the same single value are compared by the next column.
fn by_next_column(files: &[Option<&FileRanges>], found: Vec<Vec<usize>>, at: usize) -> Vec<Vec<usize>> {
    let only_value = |set: &[usize]| match set {
        [one] => column(files, *one, at).filter(|r| r.min == r.max).map(|r| r.min.as_slice()),
        _ => None,
    };
    let mut all = Vec::new();
    let mut same: Vec<usize> = Vec::new();
    let mut value: Option<&[u8]> = None;
    let close = |same: &mut Vec<usize>, all: &mut Vec<Vec<usize>>| {
        let (known, unknown): (Vec<usize>, Vec<usize>) =
            std::mem::take(same).into_iter().partition(|i| column(files, *i, at + 1).is_some());
        all.extend(components(files, known, at + 1));
        all.extend(unknown.into_iter().map(|i| vec![i]));
    };
    for set in found {
        let this = only_value(&set);
        if this.is_none() || this != value {
            close(&mut same, &mut all);
        }
        value = this;
        if this.is_some() { same.extend(set) } else { all.push(set) }
    }
    close(&mut same, &mut all);
    all
}

/// Minimum and maximum of a file, as keys; `None` if unknown.
pub(super) type Ends<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Counts the ranges that contain each of `points`. Unknown ranges contain every value.
pub(super) fn depth(ranges: &[Ends<'_>], points: &[&[u8]]) -> Depth {
    let unknown = ranges.iter().filter(|(min, max)| min.is_none() || max.is_none()).count();
    let known = ranges.iter().filter_map(|(min, max)| Some(((*min)?, (*max)?)));
    let (mut starts, mut ends): (Vec<&[u8]>, Vec<&[u8]>) = known.unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let at = |point: &[u8]| {
        let begun = starts.partition_point(|start| *start <= point);
        let over = ends.partition_point(|end| *end < point);
        begun.saturating_sub(over) + unknown
    };
    let depths: Vec<usize> = points.iter().map(|point| at(point)).collect();
    let max = depths.iter().copied().max().unwrap_or(unknown);
    let mean =
        if depths.is_empty() { unknown as f64 } else { depths.iter().sum::<usize>() as f64 / depths.len() as f64 };
    Depth { max, mean }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(super) fn ranges(columns: &[(u8, u8)]) -> FileRanges {
        let range = |&(min, max): &(u8, u8)| {
            Some(ColumnRange {
                min: vec![min],
                max: vec![max],
                min_string: Some(min.to_string()),
                max_string: Some(max.to_string()),
            })
        };
        FileRanges { rows: 1, columns: columns.iter().map(range).collect(), nulls: vec![Some(0); columns.len()] }
    }

    fn sets(files: &[&[(u8, u8)]]) -> Vec<Vec<usize>> {
        let files: Vec<FileRanges> = files.iter().map(|f| ranges(f)).collect();
        let files: Vec<Option<&FileRanges>> = files.iter().map(Some).collect();
        let (found, unknown) = overlapping(&files);
        assert!(unknown.is_empty());
        found
    }

    #[test]
    fn one_column() {
        assert_eq!(sets(&[&[(0, 2)], &[(3, 5)], &[(4, 8)], &[(9, 9)]]), [vec![0], vec![1, 2], vec![3]]);
        // Transitive, sorted by range.
        assert_eq!(sets(&[&[(6, 9)], &[(0, 3)], &[(2, 7)]]), [[1, 2, 0]]);
        assert_eq!(sets(&[&[(0, 9)], &[(1, 2)], &[(4, 5)]]), [[0, 1, 2]]);
        // Sorted files touch at one value.
        assert_eq!(sets(&[&[(0, 5)], &[(5, 5)], &[(5, 5)], &[(5, 9)]]), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(sets(&[&[(5, 5)], &[(3, 9)]]), [[1, 0]]);
    }

    #[test]
    fn the_next_column_decides_where_there_is_one_value() {
        assert_eq!(
            sets(&[&[(5, 5), (0, 3)], &[(5, 5), (2, 8)], &[(5, 5), (8, 9)], &[(6, 6), (0, 9)]]),
            [vec![0, 1], vec![2], vec![3]]
        );
        // Not with several columns: the rows of the common value may be sorted by the next one.
        assert_eq!(sets(&[&[(1, 5), (0, 9)], &[(5, 7), (0, 9)]]), [vec![0], vec![1]]);
    }

    #[test]
    fn unknown_ranges_stand_aside() {
        let known = ranges(&[(0, 9)]);
        let unknown = FileRanges { rows: 1, columns: vec![None], nulls: vec![None] };
        let (found, aside) = overlapping(&[Some(&known), None, Some(&unknown)]);
        assert_eq!((found, aside), (vec![vec![0]], vec![1, 2]));
    }

    #[test]
    fn depth_counts_files_at_the_ends() {
        let ends: Vec<Vec<u8>> = (0..10).map(|n| vec![n]).collect();
        let range = |a: usize, b: usize| (Some(ends.get(a).unwrap().as_slice()), Some(ends.get(b).unwrap().as_slice()));
        let files = [range(0, 4), range(2, 6), range(3, 9), (None, None)];
        let points: Vec<&[u8]> = [0, 4, 2, 6, 3, 9].map(|n: usize| ends.get(n).unwrap().as_slice()).to_vec();
        // 0: 1, 4: 3, 2: 2, 6: 2, 3: 3, 9: 1, and one more everywhere.
        let found = depth(&files, &points);
        assert_eq!(found.max, 4);
        assert!((found.mean - 3.0).abs() < 1e-9);
        assert_eq!(depth(&[], &[]), Depth::default());
    }
}
