//! Claims as data: what a paper says, and how a measurement is judged by it.

use serde::{Deserialize, Serialize};

/// One measured statement of a paper, from the `expected.toml` of the experiment that produces it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim's id, such as "M1".
    pub id: String,
    /// The words of the claim.
    pub text: String,
    /// Which reading of the paper the set-up is of.
    #[serde(default)]
    pub reading: Reading,
    /// The differences from the set-up as first read, and the words of the paper behind them; said for every
    /// other reading.
    #[serde(default)]
    pub set_up: String,
    /// How it is judged.
    pub rule: Rule,
    /// Whether the smoke size can tell; else it is not judged there.
    #[serde(default)]
    pub in_smoke: bool,
    /// The assumptions, and what is known about a deviation.
    #[serde(default)]
    pub note: String,
    /// Every figure it consists of.
    #[serde(rename = "value")]
    pub values: Vec<Expected>,
}

/// How a set-up came about: the columns of the scorecard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Fixed before anything was run. Its verdict is the claim's.
    #[default]
    First,
    /// Named by the paper's own words or by a rule that it gives, and fixed before it was run.
    Second,
    /// Found by looking at results. The whole sweep stands beside it.
    Candidate,
}

impl Reading {
    /// All columns, in their order.
    pub const ALL: [Reading; 3] = [Reading::First, Reading::Second, Reading::Candidate];

    /// The head of the column.
    pub const fn words(self) -> &'static str {
        match self {
            Reading::First => "as first read",
            Reading::Second => "second reading",
            Reading::Candidate => "candidate",
        }
    }
}

/// How measured figures are held against the paper's. One rule serves all claims of a kind: a direction is
/// reproduced where it holds in every cell, whatever the size, which is shown; a size needs its band.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Within so many percent of the paper's figure, limits included.
    WithinPercent(f64),
    /// Within so many points of the paper's figure, which is in percent; limits included.
    WithinPoints(f64),
    /// Between these, limits included, whatever single figure the paper prints.
    Between {
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// Below the paper's figure, which is printed with "<".
    Below,
    /// At least the paper's figure, which is in percent and printed with "over", less so many points.
    AtLeastLessPoints(f64),
    /// Exactly the paper's figure.
    Exact,
    /// Shown and not judged: it depends on the machine, or stands beside the mean that is judged.
    Shown,
    /// The figure is above 0. A size that the paper gives too, of other inputs, is shown.
    Direction,
}

/// A figure of a claim, and where it is measured.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// Comparisons of contenders, each with each it stands against.
    Contest {
        /// `input/variant`, to which the contenders are added.
        at: String,
        /// The sides of the comparison.
        #[serde(flatten)]
        match_up: MatchUp,
    },
    /// A contest over several places: of each comparison the mean is judged.
    Mean {
        /// The places: `input/variant`, to which the contenders are added.
        over: Vec<String>,
        /// The sides of the comparison.
        #[serde(flatten)]
        match_up: MatchUp,
    },
    /// A figure that falls or rises from each cell to the next. Measured is the smallest step that way, in
    /// percent of the cell before: above 0 when all steps go that way.
    Series {
        /// The cells in order.
        series: Vec<String>,
        /// The figure.
        figure: String,
        /// Which way it goes.
        trend: Trend,
    },
    /// Where growing a setting stops paying.
    Knee(Knee),
    /// One figure of both trees.
    Pair {
        /// `input/variant`, to which the index is added.
        at: String,
        /// The figure.
        figure: String,
        /// The paper's for the wandering B+-tree.
        wandering: f64,
        /// The paper's for the mu-Tree.
        mu: f64,
    },
    /// A comparison of both trees.
    Compared {
        /// `input/variant`, to which the index is added.
        at: String,
        /// The figure.
        figure: String,
        /// How the two are compared.
        form: Form,
        /// The paper's result; absent where it gives none.
        paper: Option<f64>,
    },
    /// A comparison of two cells.
    Cells {
        /// The first cell.
        against: String,
        /// The second cell.
        cell: String,
        /// The figure.
        figure: String,
        /// How the two are compared.
        form: Form,
        /// The paper's result.
        paper: f64,
    },
    /// A figure of one cell.
    Single {
        /// The cell.
        cell: String,
        /// The figure.
        figure: String,
        /// The paper's.
        paper: f64,
        /// How this figure is judged, if not as the claim is.
        rule: Option<Rule>,
    },
}

/// Contenders that are compared with others, and how that is judged.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct MatchUp {
    /// The first of each comparison.
    pub against: Vec<String>,
    /// The second of each comparison.
    pub contenders: Vec<String>,
    /// The figure.
    pub figure: String,
    /// How two are compared.
    pub form: Form,
    /// The paper's result; absent where it gives none.
    pub paper: Option<f64>,
    /// How these figures are judged, if not as the claim is.
    pub rule: Option<Rule>,
}

impl MatchUp {
    /// Every contender that takes part, as a cell at this place.
    fn cells(&self, at: &str) -> Vec<String> {
        self.against.iter().chain(&self.contenders).map(|name| format!("{at}/{name}")).collect()
    }

    /// Each comparison, the first and the second.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = [&String; 2]> {
        self.contenders.iter().flat_map(|second| self.against.iter().map(move |first| [first, second]))
    }
}

/// The smallest variant beyond which no larger one lowers a figure by more than `gain_percent`, the variants
/// being numbers. Measured is its mean over the inputs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    /// The inputs.
    pub inputs: Vec<String>,
    /// The variants in ascending order.
    pub variants: Vec<String>,
    /// The contender.
    pub contender: String,
    /// The figure.
    pub figure: String,
    /// A gain that counts.
    pub gain_percent: f64,
    /// The paper's place.
    pub paper: f64,
}

/// Which way a figure goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Less from each to the next.
    Falls,
    /// More from each to the next.
    Rises,
}

impl Trend {
    /// How far a step goes that way, in percent of where it starts.
    pub fn step(self, from: f64, to: f64) -> f64 {
        match self {
            Trend::Falls => 100.0 * (1.0 - to / from),
            Trend::Rises => 100.0 * (to / from - 1.0),
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Trend::Falls => "falls",
            Trend::Rises => "rises",
        }
    }
}

/// How the figures of two trees, or of two cells, become one: the wandering B+-tree or the cell compared
/// against is the first, the mu-Tree or the other cell the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Second / first.
    Quotient,
    /// The saving of the second, in percent of the first.
    SavingPercent,
    /// How much more work the second does in the same time, in percent: first / second - 1.
    SpeedupPercent,
}

impl Expected {
    /// Every cell it looks at.
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

    /// The figures that the paper's comparisons make of a measured figure: for each second cell the first
    /// and the value that the comparison asks of the second, so far as `mean` knows the first. Means over
    /// several places have no cell.
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

    /// The figures that the paper prints as such, with their cells: those of one cell, and of both trees.
    pub fn stated(&self) -> Vec<(String, &str, f64)> {
        match self {
            Expected::Pair { at, figure, wandering, mu } => {
                vec![(format!("{at}/wandering"), figure, *wandering), (format!("{at}/mu"), figure, *mu)]
            }
            Expected::Single { cell, figure, paper, .. } => vec![(cell.clone(), figure, *paper)],
            _ => Vec::new(),
        }
    }

    /// The figure it looks at.
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
    /// The comparison's result.
    pub fn of(self, first: f64, second: f64) -> f64 {
        match self {
            Form::Quotient => second / first,
            Form::SavingPercent => 100.0 * (1.0 - second / first),
            Form::SpeedupPercent => 100.0 * (first / second - 1.0),
        }
    }

    /// The second figure, of the first and the comparison's result.
    pub fn second(self, first: f64, result: f64) -> f64 {
        match self {
            Form::Quotient => first * result,
            Form::SavingPercent => first * (1.0 - result / 100.0),
            Form::SpeedupPercent => first / (1.0 + result / 100.0),
        }
    }

    /// The form's name in results, with the names of the two.
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
