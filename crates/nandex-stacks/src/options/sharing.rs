//! Options set by the user, compared with the known ones: resolved to the values of a run, or divided among
//! several subjects.

use super::Options;
use crate::names::{OptionInfo, UnknownName, find};
use std::collections::BTreeMap;

/// The value of every known option: the one set, or the default. An unknown option is refused.
pub fn resolve(known: &[OptionInfo], set: &Options) -> Result<BTreeMap<String, String>, UnknownName> {
    for (name, _) in set.iter() {
        find("option", name, known, |o| o.name)?;
    }
    let value = |o: &OptionInfo| set.text(o.name).unwrap_or(o.default).to_string();
    Ok(known.iter().map(|o| (o.name.to_string(), value(o))).collect())
}

/// Divides options among several subjects. Each gets the options it knows; an option that none knows is
/// refused.
pub fn deal(set: &Options, takers: &[&[OptionInfo]]) -> Result<Vec<Options>, UnknownName> {
    let mut dealt = vec![Options::default(); takers.len()];
    for (name, value) in set.iter() {
        let mut taken = false;
        for (known, options) in takers.iter().zip(&mut dealt) {
            if known.iter().any(|o| o.name == name) {
                options.set(name, value);
                taken = true;
            }
        }
        if !taken {
            let all = takers.iter().flat_map(|known| known.iter().map(|o| o.name));
            return Err(UnknownName::of("option", name, all));
        }
    }
    Ok(dealt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{nearest, option, union_of};

    const KNOWN: [OptionInfo; 2] = [option("records", "100", "how many"), option("theta", "0.99", "skew")];

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        assert_eq!(nearest("reccords", ["records", "theta"]), Some("records"));
        assert_eq!(nearest("MU", ["bplus", "mu"]), Some("mu"));
        assert_eq!(nearest("zzz", ["records", "theta"]), None);
    }

    #[test]
    fn a_union_has_every_name_once() {
        const ALL: &[OptionInfo] = union_of!(KNOWN, [], [option("zeta", "", ""), KNOWN[1], KNOWN[0]]);
        assert_eq!([0, 1, 2].map(|i| ALL[i]).map(|option| option.name), ["records", "theta", "zeta"]);
    }

    #[test]
    fn options_are_resolved_and_unknown_ones_refused() {
        let mut set = Options::default();
        set.set("theta", "0.5");
        let all = resolve(&KNOWN, &set).unwrap();
        assert_eq!((all["records"].as_str(), all["theta"].as_str()), ("100", "0.5"));
        set.set("thetta", "1");
        let refused = resolve(&KNOWN, &set).unwrap_err().to_string();
        assert_eq!(refused, "there is no option 'thetta'; did you mean 'theta'?");
    }

    #[test]
    fn options_go_to_those_who_know_them() {
        let mut set = Options::default();
        set.set("theta", "0.5");
        let dealt = deal(&set, &[&KNOWN[..1], &KNOWN[..]]).unwrap();
        assert_eq!((dealt[0].text("theta"), dealt[1].text("theta")), (None, Some("0.5")));
        set.set("thta", "1");
        assert!(deal(&set, &[&KNOWN[..]]).is_err());
    }
}
