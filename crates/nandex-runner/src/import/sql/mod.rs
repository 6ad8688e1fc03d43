//! Turns SQL statements into operations on the keys of their tables.
//!
//! A statement counts if it names records by the key of one table (`WHERE id = 5`, `IN`, `BETWEEN`, bounds)
//! or scans the whole table. Searches by other columns and joins are skipped: the log does not tell which
//! records they touch.

mod statement;
#[cfg(test)]
mod tests;

use super::Sink;
use crate::trace::build::{Effect, Key, Span};
use statement::{Find, Statement, Term, Values};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A statement of a log, with the facts that the log gives about it.
pub(super) struct Logged {
    /// Number of its first line in the log.
    pub(super) line: u64,
    /// Number of the connection that sent it.
    pub(super) connection: u64,
    /// The statement as the client wrote it.
    pub(super) text: String,
    /// Parameters of a prepared statement; `None` is NULL.
    pub(super) parameters: Vec<Option<Key>>,
    /// Whether the statement ended with an error, which undoes its transaction.
    pub(super) failed: bool,
}

impl Logged {
    pub(super) fn new(line: u64, connection: u64, text: &str) -> Logged {
        Logged { line, connection, text: text.to_string(), parameters: Vec::new(), failed: false }
    }
}

/// Most records that one UPDATE or DELETE may change.
const CHANGED_MAX: usize = 1_000_000;

/// A change within a transaction, kept in case the transaction is rolled back.
type Change = (u8, Key, Effect);

struct Follower<'a, 's> {
    sink: &'a mut Sink<'s>,
    keys: BTreeMap<String, String>,
    /// Names of the columns of each table that the log creates.
    columns: BTreeMap<String, Vec<String>>,
    /// Changes of the open transactions, by connection.
    open: BTreeMap<u64, Vec<Change>>,
}

/// Follows the statements of a log. If `quoted_texts` is set, double quotes enclose texts and not names.
pub(super) fn follow(log: &[Logged], quoted_texts: bool, sink: &mut Sink<'_>) -> Result<(), (u64, String)> {
    let parse = |logged: &Logged| match logged.failed {
        true => Some(Statement::Rollback),
        false => statement::parse(&logged.text, &logged.parameters, quoted_texts),
    };
    let statements: Vec<Option<Statement>> = log.iter().map(parse).collect();
    let (keys, columns) = keys(&statements, &sink.options.keys);
    let mut follower = Follower { sink, keys, columns, open: BTreeMap::new() };
    for (logged, statement) in log.iter().zip(statements) {
        let done = match statement {
            Some(statement) => follower.follow(logged.connection, statement),
            None => Ok(false),
        };
        match done.map_err(|reason| (logged.line, reason))? {
            true => follower.sink.followed += 1,
            false => follower.sink.pass_over(logged.line, &logged.text),
        }
    }
    follower.sink.columns = follower.keys.into_iter().collect();
    Ok(())
}

type Columns = BTreeMap<String, Vec<String>>;

/// The key column of each table: the given one, else its primary key, else the column compared most often.
fn keys(statements: &[Option<Statement>], given: &[(String, String)]) -> (BTreeMap<String, String>, Columns) {
    let mut counts: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    let (mut keys, mut columns) = (BTreeMap::new(), Columns::new());
    for statement in statements.iter().flatten() {
        match statement {
            Statement::Find { table, terms, .. } => {
                for term in terms.iter().filter(|term| term.values != Values::Unclear) {
                    *counts.entry(table).or_default().entry(&term.column).or_default() += 1;
                }
            }
            Statement::Create { table, columns: names, primary } => {
                if !names.is_empty() {
                    columns.insert(table.clone(), names.clone());
                }
                keys.extend(primary.iter().map(|primary| (table.clone(), primary.clone())));
            }
            _ => {}
        }
    }
    for (table, counts) in counts {
        let most = counts.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
        if let Some((name, _)) = most {
            keys.entry(table.to_string()).or_insert_with(|| (*name).to_string());
        }
    }
    keys.extend(given.iter().cloned());
    (keys, columns)
}

impl Follower<'_, '_> {
    /// Follows one statement. Returns false if the statement does not tell which records it touches.
    fn follow(&mut self, connection: u64, statement: Statement) -> Result<bool, String> {
        match statement {
            Statement::Begin => {
                self.commit(connection);
                self.open.insert(connection, Vec::new());
            }
            Statement::Commit => self.commit(connection),
            Statement::Rollback => self.roll_back(connection),
            Statement::Nothing | Statement::Create { .. } => {}
            Statement::Insert { table, columns, rows } => {
                let columns =
                    if columns.is_empty() { self.columns.get(&table).cloned() } else { Some(columns) };
                let number = self.sink.builder.table(&table)?;
                for row in rows {
                    self.insert(connection, (number, &table), (columns.as_deref(), row));
                }
                self.changed(connection);
            }
            Statement::Find { what, table, terms, limit, descending } => {
                let Some(span) = self.span(&table, &terms) else { return Ok(false) };
                let number = self.sink.builder.table(&table)?;
                match what {
                    Find::Select => self.select(number, span, limit, descending),
                    Find::Update | Find::Delete => self.change(connection, what, number, span),
                }
            }
        }
        Ok(true)
    }

    /// The keys that a statement touches; `None` if the conditions do not tell them.
    fn span(&self, table: &str, terms: &[Term]) -> Option<Values> {
        if terms.is_empty() {
            return Some(Values::Within(Bound::Unbounded, Bound::Unbounded));
        }
        let key = self.keys.get(table)?;
        let of_key: Vec<&Values> =
            terms.iter().filter(|term| term.column == *key).map(|term| &term.values).collect();
        if let Some(one_of) = of_key.iter().find(|values| matches!(values, Values::OneOf(_))) {
            return Some((*one_of).clone());
        }
        let (mut low, mut high) = (Bound::Unbounded, Bound::Unbounded);
        for values in of_key {
            let Values::Within(from, to) = values else { continue };
            if *from != Bound::Unbounded {
                low = from.clone();
            }
            if *to != Bound::Unbounded {
                high = to.clone();
            }
        }
        (low != Bound::Unbounded || high != Bound::Unbounded).then_some(Values::Within(low, high))
    }

    fn select(&mut self, table: u8, span: Values, limit: Option<u64>, descending: bool) {
        let builder = &mut self.sink.builder;
        match span {
            Values::OneOf(keys) => keys.into_iter().for_each(|key| builder.look_up(table, key, None)),
            Values::Within(low, high) => builder.range(table, Span { low, high, limit, descending }),
            Values::Unclear => {}
        }
    }

    fn change(&mut self, connection: u64, what: Find, table: u8, span: Values) {
        let keys = match span {
            Values::OneOf(keys) => keys,
            Values::Within(low, high) => {
                self.sink.builder.between(table, (&low, &high), (false, CHANGED_MAX))
            }
            Values::Unclear => Vec::new(),
        };
        for key in keys {
            let effect = match what {
                Find::Delete => self.sink.builder.remove(table, key.clone()),
                _ => self.sink.builder.update(table, key.clone()),
            };
            self.note(connection, (table, key, effect));
        }
        self.changed(connection);
    }

    fn insert(
        &mut self,
        connection: u64,
        (table, name): (u8, &str),
        (columns, row): (Option<&[String]>, Vec<Option<Key>>),
    ) {
        let place = match (columns, self.keys.get(name)) {
            (Some(columns), Some(key)) => columns.iter().position(|column| column == key),
            (None, Some(_)) => Some(0),
            // Nobody looks for rows of this table by a key: each is one more.
            (_, None) => None,
        };
        let given = place.and_then(|place| row.get(place).cloned().flatten());
        // A number that the system draws: the next one.
        let key = given.unwrap_or_else(|| self.sink.builder.next_number(table));
        let effect = self.sink.builder.put(table, key.clone());
        self.note(connection, (table, key, effect));
    }

    fn note(&mut self, connection: u64, change: Change) {
        if let Some(open) = self.open.get_mut(&connection) {
            open.push(change);
        }
    }

    /// Ends the change of a statement outside a transaction, which is a transaction of its own.
    fn changed(&mut self, connection: u64) {
        if !self.open.contains_key(&connection) {
            self.sink.sync();
        }
    }

    fn commit(&mut self, connection: u64) {
        if self.open.remove(&connection).is_some_and(|changes| !changes.is_empty()) {
            self.sink.sync();
        }
    }

    /// Undoes a transaction, its last change first; the index sees that as further changes.
    fn roll_back(&mut self, connection: u64) {
        for (table, key, effect) in self.open.remove(&connection).unwrap_or_default().into_iter().rev() {
            let builder = &mut self.sink.builder;
            match effect {
                Effect::None => {}
                Effect::Inserted => {
                    builder.remove(table, key);
                }
                Effect::Updated => {
                    builder.update(table, key);
                }
                Effect::Removed => {
                    builder.put(table, key);
                }
            }
        }
    }
}
