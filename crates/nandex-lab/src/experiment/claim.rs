//! Claims as data: a result stated by a paper, and the rule that judges a measurement by it.

use serde::{Deserialize, Serialize};

/// One measured statement of a paper, from the `expected.toml` of the experiment that produces it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim's id, such as "M1".
    pub id: String,
    /// The text of the claim.
    pub text: String,
    /// The reading of the paper on which the set-up is based.
    #[serde(default)]
    pub reading: Reading,
    /// The differences from the set-up as first read, with the paper's words behind them. Given for every
    /// other reading.
    #[serde(default)]
    pub set_up: String,
    /// Rule that judges the claim.
    pub rule: Rule,
    /// Whether a smoke run can judge it. If not, a smoke run leaves it unjudged.
    #[serde(default)]
    pub in_smoke: bool,
    /// Notes: the assumptions, and known deviations.
    #[serde(default)]
    pub note: String,
    /// All figures of the claim.
    #[serde(rename = "value")]
    pub values: Vec<Expected>,
}

/// The origin of a set-up. These are the columns of the scorecard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The reading fixed before anything was run. It gives the verdict of the claim.
    #[default]
    First,
    /// Another reading that the paper's words or a rule of it allow, also fixed before it was run.
    Second,
    /// Found by looking at results. The results of the whole sweep are shown with it.
    Candidate,
}

impl Reading {
    /// All readings, in the order of their columns in the scorecard.
    pub const ALL: [Reading; 3] = [Reading::First, Reading::Second, Reading::Candidate];

    /// The heading of the column.
    pub const fn words(self) -> &'static str {
        match self {
            Reading::First => "as first read",
            Reading::Second => "second reading",
            Reading::Candidate => "candidate",
        }
    }
}

/// The rule by which measured figures are compared with the paper's. One rule serves all claims of a kind.
/// A direction is reproduced if it holds in every cell; the size is then shown but not judged. A size needs
/// a band.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// At most this percentage away from the paper's figure.
    WithinPercent(f64),
    /// At most this many percentage points away from the paper's figure, which is in percent.
    WithinPoints(f64),
    /// Between two limits, both included, whatever single figure the paper gives.
    Between {
        /// The lower limit.
        low: f64,
        /// The upper limit.
        high: f64,
    },
    /// Below the paper's figure, which is printed with "<".
    Below,
    /// At least the paper's figure less this many percentage points. The paper prints it in percent with
    /// "over".
    AtLeastLessPoints(f64),
    /// Exactly the paper's figure.
    Exact,
    /// Shown and not judged: the figure depends on the machine, or accompanies a mean that is judged.
    Shown,
    /// The figure must be above 0. If the paper also gives a size, for other inputs, it is shown.
    Direction,
}

/// A figure of a claim, and the cells that measure it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// Compares each contender with each of the others named.
    Contest {
        /// The place, `input/variant`, to which contenders are added.
        at: String,
        /// The sides of the comparison.
        #[serde(flatten)]
        match_up: MatchUp,
    },
    /// A contest over several places. The mean of each comparison is judged.
    Mean {
        /// The places, `input/variant`, to which contenders are added.
        over: Vec<String>,
        /// The sides of the comparison.
        #[serde(flatten)]
        match_up: MatchUp,
    },
    /// A figure that falls or rises from each cell to the next. The measured value is the smallest step in
    /// that direction, in percent of the cell before. It is above 0 if all steps go that way.
    Series {
        /// The cells, in order.
        series: Vec<String>,
        /// Name of the figure.
        figure: String,
        /// Claimed direction.
        trend: Trend,
    },
    /// The size beyond which a larger setting no longer pays.
    Knee(Knee),
    /// One figure of both trees.
    Pair {
        /// The place, `input/variant`, to which the index is added.
        at: String,
        /// Name of the figure.
        figure: String,
        /// The paper's figure for the wandering B+-tree.
        wandering: f64,
        /// The paper's figure for the mu-Tree.
        mu: f64,
    },
    /// A comparison of the two trees.
    Compared {
        /// The place, `input/variant`, to which the index is added.
        at: String,
        /// Name of the figure.
        figure: String,
        /// The form of the comparison.
        form: Form,
        /// The paper's result. Absent if the paper gives none.
        paper: Option<f64>,
    },
    /// A comparison of two cells.
    Cells {
        /// The first cell of the comparison.
        against: String,
        /// The second cell of the comparison.
        cell: String,
        /// Name of the figure.
        figure: String,
        /// The form of the comparison.
        form: Form,
        /// The paper's value.
        paper: f64,
    },
    /// A figure of one cell.
    Single {
        /// Name of the cell.
        cell: String,
        /// Name of the figure.
        figure: String,
        /// The paper's value.
        paper: f64,
        /// The rule for this figure, if it differs from the claim's.
        rule: Option<Rule>,
    },
}

/// The sides of a comparison, and the rule for judging it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct MatchUp {
    /// Contenders on the first side.
    pub against: Vec<String>,
    /// Contenders on the second side.
    pub contenders: Vec<String>,
    /// Name of the figure.
    pub figure: String,
    /// The form of the comparison.
    pub form: Form,
    /// The paper's result. Absent if the paper gives none.
    pub paper: Option<f64>,
    /// The rule for these figures, if it differs from the claim's.
    pub rule: Option<Rule>,
}

impl MatchUp {
    /// The cells of all contenders at this place.
    fn cells(&self, at: &str) -> Vec<String> {
        self.against.iter().chain(&self.contenders).map(|name| format!("{at}/{name}")).collect()
    }

    /// Each comparison as the first and the second contender.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = [&String; 2]> {
        self.contenders.iter().flat_map(|second| self.against.iter().map(move |first| [first, second]))
    }
}

/// The smallest of several variants (numbers) beyond which no larger one lowers a figure by more than
/// `gain_percent`. The measured value is the mean over the inputs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// The variants in ascending order.
    pub variants: Vec<String>,
    /// Name of the contender.
    pub contender: String,
    /// Name of the figure.
    pub figure: String,
    /// Smallest gain, in percent, that counts.
    pub gain_percent: f64,
    /// The paper's value.
    pub paper: f64,
}

/// The direction of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Each value is less than the one before.
    Falls,
    /// Each value is more than the one before.
    Rises,
}

impl Trend {
    /// Size of a step in this direction, in percent of `from`.
    pub fn step(self, from: f64, to: f64) -> f64 {
        match self {
            Trend::Falls => 100.0 * (1.0 - to / from),
            Trend::Rises => 100.0 * (to / from - 1.0),
        }
    }

    /// The direction in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Trend::Falls => "falls",
            Trend::Rises => "rises",
        }
    }
}

/// How two figures are compared. The first is that of the wandering B+-tree, or of the reference cell. The
/// second is that of the mu-Tree, or of the other cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The second divided by the first.
    Quotient,
    /// The saving of the second, in percent of the first.
    SavingPercent,
    /// The additional work that the second does in the same time, in percent: first / second - 1.
    SpeedupPercent,
}

impl Expected {
    /// All cells that the figure needs.
    pub fn cells(&self) -> Vec<String> {
        match self {
            Expected::Contest { at, match_up } => match_up.cells(at),
            Expected::Mean { over, match_up } => over.iter().flat_map(|at| match_up.cells(at)).collect(),
            Expected::Series { series, .. } => series.clone(),
            Expected::Knee(Knee { inputs, variants, contender, .. }) => {
                let cell = |input| variants.iter().map(move |v| format!("{input}/{v}/{contender}"));
                inputs.iter().flat_map(cell).collect()
            }
            Expected::Pair { at, .. } | Expected::Compared { at, .. } => {
                vec![format!("{at}/wandering"), format!("{at}/mu")]
            }
            Expected::Cells { against, cell, .. } => vec![against.clone(), cell.clone()],
            Expected::Single { cell, .. } => vec![cell.clone()],
        }
    }

    /// The second figures that the paper's comparisons imply from our measured first ones: first cell,
    /// second cell, and value. `mean` gives the mean of a figure of a cell. Means over several places imply
    /// none.
    pub fn implied(&self, mean: &dyn Fn(&str, &str) -> Option<f64>) -> Vec<(String, String, f64)> {
        let implied = |first: String, second: String, figure: &str, form: Form, paper: Option<f64>| {
            let value = form.second(mean(&first, figure)?, paper?);
            Some((first, second, value))
        };
        match self {
            Expected::Contest { at, match_up } => {
                let MatchUp { figure, form, paper, .. } = match_up;
                let pair = |pair: [&String; 2]| {
                    let [first, second] = pair.map(|name| format!("{at}/{name}"));
                    implied(first, second, figure, *form, *paper)
                };
                match_up.pairs().filter_map(pair).collect()
            }
            Expected::Compared { at, figure, form, paper } => {
                let [first, second] = ["wandering", "mu"].map(|name| format!("{at}/{name}"));
                implied(first, second, figure, *form, *paper).into_iter().collect()
            }
            Expected::Cells { against, cell, figure, form, paper } => {
                implied(against.clone(), cell.clone(), figure, *form, Some(*paper)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The paper's own figures, each with the names of its cell and figure.
    pub fn stated(&self) -> Vec<(String, &str, f64)> {
        match self {
            Expected::Pair { at, figure, wandering, mu } => {
                vec![(format!("{at}/wandering"), figure, *wandering), (format!("{at}/mu"), figure, *mu)]
            }
            Expected::Single { cell, figure, paper, .. } => vec![(cell.clone(), figure, *paper)],
            _ => Vec::new(),
        }
    }

    /// The name of the figure.
    pub fn figure(&self) -> &str {
        match self {
            Expected::Contest { match_up: MatchUp { figure, .. }, .. }
            | Expected::Mean { match_up: MatchUp { figure, .. }, .. }
            | Expected::Series { figure, .. }
            | Expected::Knee(Knee { figure, .. })
            | Expected::Pair { figure, .. }
            | Expected::Compared { figure, .. }
            | Expected::Cells { figure, .. }
            | Expected::Single { figure, .. } => figure,
        }
    }
}

impl Form {
    /// The result of comparing two figures.
    pub fn of(self, first: f64, second: f64) -> f64 {
        match self {
            Form::Quotient => second / first,
            Form::SavingPercent => 100.0 * (1.0 - second / first),
            Form::SpeedupPercent => 100.0 * (first / second - 1.0),
        }
    }

    /// The second figure, computed from the first and the result of the comparison.
    pub fn second(self, first: f64, result: f64) -> f64 {
        match self {
            Form::Quotient => first * result,
            Form::SavingPercent => first * (1.0 - result / 100.0),
            Form::SpeedupPercent => first / (1.0 + result / 100.0),
        }
    }

    /// The form in results, with the names of both sides.
    pub fn name(self, first: &str, second: &str) -> String {
        match self {
            Form::Quotient => format!("{second} / {first}"),
            Form::SavingPercent => format!("saving of {second} in percent"),
            Form::SpeedupPercent => format!("speedup of {second} in percent"),
        }
    }
}

impl Rule {
    /// The rule in words.
    pub fn words(self) -> String {
        match self {
            Rule::WithinPercent(percent) => format!("within {percent} %"),
            Rule::WithinPoints(points) => format!("within {points} points"),
            Rule::Between { low, high } => format!("between {low} and {high}"),
            Rule::Below => String::from("below"),
            Rule::AtLeastLessPoints(points) => format!("at least, less {points} points"),
            Rule::Exact => String::from("exact"),
            Rule::Shown => String::from("shown, not judged"),
            Rule::Direction => String::from("direction"),
        }
    }
}
