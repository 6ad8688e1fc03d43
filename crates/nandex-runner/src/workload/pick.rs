//! Which of the records present an operation addresses.

use super::Zipf;
use nandex::rng::Rng;

/// A distribution over the places `0..n` of the present records; `n` may change from pick to pick.
#[derive(Clone, Debug)]
pub enum Picker {
    /// All places are equally likely.
    Uniform,
    /// `access_percent` of the picks go to the first `hot_percent` of the places; within each part all
    /// places are equally likely.
    HotCold {
        /// Percentage of the places that are hot.
        hot_percent: u64,
        /// Percentage of the picks that go to hot places.
        access_percent: u64,
    },
    /// Place `i` has the weight `1 / (i + 1)^theta`.
    Zipfian(Zipf),
    /// Places have the weights of `Zipfian`, but counted from the last place: the youngest records are the
    /// most popular.
    Latest(Zipf),
}

impl Picker {
    /// Draws a place in `0..n`.
    pub fn pick(&self, rng: &mut Rng, n: u64) -> u64 {
        match self {
            Picker::Uniform => rng.below(n),
            Picker::HotCold { hot_percent, access_percent } => {
                let hot = (n * hot_percent / 100).clamp(1, n);
                if hot == n || rng.chance(*access_percent, 100) {
                    rng.below(hot)
                } else {
                    hot + rng.below(n - hot)
                }
            }
            Picker::Zipfian(zipf) => zipf.pick(rng, n),
            Picker::Latest(zipf) => n - 1 - zipf.pick(rng, n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_the_picks_go_to_a_fifth_of_the_places() {
        let picker = Picker::HotCold { hot_percent: 20, access_percent: 80 };
        let mut rng = Rng::new(5);
        let hot = (0..100_000).filter(|_| picker.pick(&mut rng, 1_000) < 200).count();
        assert!((79_500..80_500).contains(&hot), "{hot}");
        assert_eq!(picker.pick(&mut rng, 1), 0);
    }

    #[test]
    fn the_latest_records_are_the_most_popular() {
        let picker = Picker::Latest(Zipf::new(100, 0.99));
        let mut rng = Rng::new(5);
        let mut counts = [0u32; 100];
        for _ in 0..10_000 {
            counts[picker.pick(&mut rng, 100) as usize] += 1;
        }
        assert_eq!(counts.iter().max(), Some(&counts[99]));
        assert!(counts[99] > 20 * counts[0], "{counts:?}");
    }
}
