//! The analysis of the mu-Tree paper (Kang et al. 2007, section 4): heights, valid pages and costs of the
//! wandering B+-tree and of the mu-Tree, with every node full and nothing cached or collected.
//!
//! `f` is the number of entries that fit into a page. The equations are real-valued as in the paper; the same
//! heights in whole numbers, from capacities in bytes, are `height_for` of the trees' layouts in the engine.

/// Equation 2: records of a full B+-tree of this height.
pub fn bplus_records(f: f64, height: u32) -> f64 {
    f.powi(height as i32)
}

/// Equation 3: the height of a B+-tree with `n` records, before rounding up.
pub fn bplus_height(f: f64, n: f64) -> f64 {
    n.log2() / f.log2()
}

/// Equation 4: entries of a node at `level` of a mu-Tree of this height.
pub fn mu_entries(f: f64, level: u32, height: u32) -> f64 {
    let halvings = if level == height { level - 1 } else { level };
    f / 2f64.powi(halvings as i32)
}

/// Equation 5: records of a full mu-Tree of this height.
pub fn mu_records(f: f64, height: u32) -> f64 {
    2.0 * (1..=height).map(|i| f / 2f64.powi(i as i32)).product::<f64>()
}

/// Equation 6: the height of a mu-Tree with `n` records, before rounding up. NaN if no height can hold so
/// many.
pub fn mu_height(f: f64, n: f64) -> f64 {
    let a = (2f64.sqrt() / f).log2();
    -a - (a * a - 2.0 * (n / 2.0).log2()).sqrt()
}

/// A height in levels from its real value; a whole number is not lifted by the error of binary fractions.
pub fn levels(height: f64) -> u32 {
    (height - 1e-12).ceil().max(1.0) as u32
}

/// Equation 8: valid pages of a B+-tree with `n` records.
pub fn bplus_pages(f: f64, n: f64) -> f64 {
    (1..=levels(bplus_height(f, n))).map(|level| (n / bplus_records(f, level)).ceil()).sum()
}

/// Equation 9: the same without the inner nodes.
pub fn bplus_leaf_pages(f: f64, n: f64) -> f64 {
    (n / f).ceil()
}

/// Equation 10: valid pages of a mu-Tree with `n` records; inner nodes live in the leaves' pages.
pub fn mu_pages(f: f64, n: f64) -> f64 {
    (n / (f / 2.0)).ceil()
}

/// Page reads and programs of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCost {
    /// Expected page reads.
    pub page_reads: u32,
    /// Expected page programs.
    pub page_programs: u32,
}

/// Table 3: a retrieval in either tree of this height.
pub fn retrieval_cost(height: u32) -> OpCost {
    OpCost { page_reads: height, page_programs: 0 }
}

/// Table 3: an insertion or deletion in a B+-tree of this height, without splits.
pub fn bplus_update_cost(height: u32) -> OpCost {
    OpCost { page_reads: height, page_programs: height }
}

/// Table 3: an insertion or deletion in a mu-Tree of this height, without splits.
pub fn mu_update_cost(height: u32) -> OpCost {
    OpCost { page_reads: height, page_programs: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::ordered::RecordFormat;
    use nandex::ordered::mu::layout::Layout;
    use nandex::ordered::wandering::OneNodePages;

    const F: f64 = 512.0;
    const RECORD: RecordFormat = RecordFormat::new(4, 4);
    const BILLION: u64 = 1_000_000_000;

    fn trees() -> (Layout, OneNodePages) {
        (Layout::of(4096, RECORD), OneNodePages::of(4096, RECORD).unwrap())
    }

    #[test]
    fn equation_5_is_the_product_of_equation_4() {
        for height in 1..=6 {
            let product: f64 = (1..=height).map(|level| mu_entries(F, level, height)).product();
            assert!((product / mu_records(F, height) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn equations_3_and_6_invert_2_and_5() {
        for height in 1..=5 {
            assert!((bplus_height(F, bplus_records(F, height)) - f64::from(height)).abs() < 1e-12);
            assert!((mu_height(F, mu_records(F, height)) - f64::from(height)).abs() < 1e-12);
        }
    }

    #[test]
    fn a_level_is_added_where_the_whole_numbers_add_it() {
        let (mu, bplus) = trees();
        for height in 1..=4u8 {
            for n in [mu.records_max(height), bplus.records_max(height)] {
                for n in [n - 1, n, n + 1].into_iter().filter(|&n| n <= BILLION) {
                    assert_eq!(mu.height_for(n), Some(levels(mu_height(F, n as f64)) as u8), "{n}");
                    assert_eq!(bplus.height_for(n), Some(levels(bplus_height(F, n as f64)) as u8), "{n}");
                }
            }
        }
    }

    #[test]
    fn pages_are_those_of_the_layouts() {
        let (mu, bplus) = trees();
        for n in [1, 511, 512, 513, 262_144, 262_145, 1_000_000, BILLION] {
            assert_eq!(mu_pages(F, n as f64) as u64, mu.pages_for(n), "{n}");
            assert_eq!(bplus_pages(F, n as f64) as u64, bplus.pages_for(n), "{n}");
        }
        assert_eq!(bplus_leaf_pages(F, 1e6), 1954.0);
    }
}
