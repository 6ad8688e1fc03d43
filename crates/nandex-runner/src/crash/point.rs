//! A power cut as text: `1234:before`, `1234:prefix`, and `1234:prefix,57:before` if the recovered index is
//! cut again.

use crate::error::LabError;
use nandex::nand::sim::TornModel;
use std::fmt;
use std::str::FromStr;

/// A cut: the physical operation at which the power fails, and the part of it that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Number of the physical operation, from 0 at the beginning of the recording.
    pub operation: u64,
    /// The torn remains of the operation. `None` means that the cut came before it. A cut after an
    /// operation is one before the next.
    pub torn: Option<TornModel>,
}

/// One cut, or two. The second hits what happens after the first, from the recovery on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutPoint {
    /// The first cut.
    pub first: Cut,
    /// The second cut. Its operations are counted from the mount after the first.
    pub second: Option<Cut>,
}

/// Number of ways to cut an operation: before it, or inside it with each torn model.
pub(crate) const WAYS: u64 = 1 + TornModel::ALL.len() as u64;

impl Cut {
    /// The cut with this number. Numbers run over all ways to cut each operation.
    pub(crate) fn numbered(number: u64) -> Cut {
        let way = (number % WAYS) as usize;
        Cut { operation: number / WAYS, torn: way.checked_sub(1).map(|torn| TornModel::ALL[torn]) }
    }

    pub(super) fn number(&self) -> u64 {
        let way = self.torn.map_or(0, |torn| 1 + torn as u64);
        self.operation * WAYS + way
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.operation, self.torn.map_or("before", TornModel::name))
    }
}

impl fmt::Display for CutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.second {
            Some(second) => write!(f, "{},{second}", self.first),
            None => write!(f, "{}", self.first),
        }
    }
}

impl FromStr for Cut {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Cut, LabError> {
        let bad = || {
            let ways = TornModel::ALL.map(TornModel::name).join(", ");
            LabError::bad_option(
                "at",
                text,
                format!("is no cut: a number, a colon and one of before, {ways}"),
            )
        };
        let (operation, way) = text.split_once(':').ok_or_else(bad)?;
        let operation = operation.parse().map_err(|_| bad())?;
        let torn = match way {
            "before" => None,
            _ => Some(TornModel::ALL.into_iter().find(|torn| torn.name() == way).ok_or_else(bad)?),
        };
        Ok(Cut { operation, torn })
    }
}

impl FromStr for CutPoint {
    type Err = LabError;

    fn from_str(text: &str) -> Result<CutPoint, LabError> {
        Ok(match text.split_once(',') {
            Some((first, second)) => CutPoint { first: first.parse()?, second: Some(second.parse()?) },
            None => CutPoint { first: text.parse()?, second: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_written_and_read_and_numbered() {
        for number in 0..20 {
            let cut = Cut::numbered(number);
            assert_eq!(cut.number(), number);
            assert_eq!(cut.to_string().parse::<Cut>().unwrap(), cut);
        }
        let point: CutPoint = "7:prefix,3:looks_erased".parse().unwrap();
        assert_eq!(point.to_string(), "7:prefix,3:looks_erased");
        assert!("7:torn".parse::<CutPoint>().unwrap_err().to_string().contains("looks_erased"));
        assert!("7".parse::<CutPoint>().is_err() && "x:before".parse::<CutPoint>().is_err());
    }
}
