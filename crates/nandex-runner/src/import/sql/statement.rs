//! Statements of SQL, by what they do to keys: a small part of the language, and no guesses beyond it.

use super::tokens::{Token, tokens};
use crate::trace::build::Key;
use std::ops::Bound;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// SELECT, UPDATE or DELETE on one table.
    Find { what: Find, table: String, terms: Vec<Term>, limit: Option<u64>, descending: bool },
    /// INSERT or REPLACE: the constants of each row by column; `None` for any other expression.
    Insert { table: String, columns: Vec<String>, rows: Vec<Vec<Option<Key>>> },
    /// CREATE TABLE.
    Create { table: String, columns: Vec<String>, primary: Option<String> },
    /// A transaction begins.
    Begin,
    /// The transaction ends and is to be durable.
    Commit,
    /// The transaction is undone.
    Rollback,
    /// A statement that touches no record, such as SET.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Find {
    Select,
    Update,
    Delete,
}

/// A condition on one column. A record must satisfy all conditions of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) column: String,
    pub(super) values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    OneOf(Vec<Key>),
    Within(Bound<Key>, Bound<Key>),
    /// A condition that does not restrict the column to constants.
    Unclear,
}

/// Parses one statement. If `quoted_texts` is set, double quotes enclose texts and not names.
pub(super) fn parse(text: &str, parameters: &[Option<Key>], quoted_texts: bool) -> Option<Statement> {
    let tokens: Vec<Token> = tokens(text, quoted_texts)
        .into_iter()
        .map(|token| match token {
            Token::Parameter(number) => {
                parameters.get(number).cloned().flatten().map_or(token, Token::Constant)
            }
            token => token,
        })
        .collect();
    let mut words = Words { tokens: &tokens, at: 0 };
    match words.keyword()?.as_str() {
        "select" => words.select(),
        "update" => words.update(),
        "delete" => words.delete(),
        "insert" | "replace" => words.insert(),
        "create" => words.create(),
        "alter" => words.alter(),
        "begin" => Some(Statement::Begin),
        "start" => words.takes("transaction").then_some(Statement::Begin),
        "commit" | "end" => Some(Statement::Commit),
        "rollback" | "abort" if !words.has("to") => Some(Statement::Rollback),
        "set" | "show" | "use" | "explain" | "analyze" | "vacuum" | "savepoint" | "release" | "discard"
        | "prepare" | "deallocate" | "drop" | "execute" | "lock" | "unlock" | "grant" | "checkpoint"
        | "flush" => Some(Statement::Nothing),
        _ => None,
    }
}

struct Words<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the next keyword, in small letters.
    fn keyword(&mut self) -> Option<String> {
        let Some(Token::Word(word, false)) = self.peek() else { return None };
        let word = word.to_ascii_lowercase();
        self.at += 1;
        Some(word)
    }

    fn is(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found, false)) if found.eq_ignore_ascii_case(word))
    }

    fn takes(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is);
        is
    }

    /// Whether the keyword occurs anywhere in the rest of the statement.
    fn has(&self, word: &str) -> bool {
        let is =
            |token: &Token| matches!(token, Token::Word(found, false) if found.eq_ignore_ascii_case(word));
        self.tokens[self.at..].iter().any(is)
    }

    /// Moves behind the next such keyword outside brackets.
    fn skip_behind(&mut self, word: &str) -> bool {
        let mut depth = 0;
        while let Some(token) = self.peek() {
            match token {
                Token::Sign("(") => depth += 1,
                Token::Sign(")") => depth -= 1,
                Token::Word(found, false) if depth == 0 && found.eq_ignore_ascii_case(word) => {
                    self.at += 1;
                    return true;
                }
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    /// Takes a name and drops its qualifiers, such as the schema.
    fn name(&mut self) -> Option<String> {
        let mut name = None;
        while let Some(Token::Word(word, quoted)) = self.peek() {
            name = Some(if *quoted { word.clone() } else { word.to_ascii_lowercase() });
            self.at += 1;
            if !self.takes_sign(".") {
                break;
            }
        }
        name
    }

    fn select(&mut self) -> Option<Statement> {
        if !self.skip_behind("from") {
            return Some(Statement::Nothing);
        }
        let table = self.name()?;
        let is_alias = |word: &str| !["where", "order", "limit", "for", "group", "having"].contains(&word);
        if !self.takes("as")
            && let Some(Token::Word(word, false)) = self.peek()
            && ["join", "inner", "left", "right", "cross", "natural", "union"]
                .contains(&word.to_ascii_lowercase().as_str())
        {
            return None;
        }
        if matches!(self.peek(), Some(Token::Word(word, _)) if is_alias(&word.to_ascii_lowercase())) {
            self.at += 1;
        }
        // Several tables: which key belongs to which is not known.
        let joins = ["join", "union"].iter().any(|word| self.has(word));
        if joins || matches!(self.peek(), Some(Token::Sign(","))) {
            return None;
        }
        self.find(Find::Select, table)
    }

    fn update(&mut self) -> Option<Statement> {
        let _ = self.takes("only") || self.takes("ignore");
        let table = self.name()?;
        self.find(Find::Update, table)
    }

    fn delete(&mut self) -> Option<Statement> {
        if !self.takes("from") {
            return None;
        }
        let table = self.name()?;
        self.find(Find::Delete, table)
    }

    fn find(&mut self, what: Find, table: String) -> Option<Statement> {
        let mut terms = Vec::new();
        let begin = self.at;
        if self.skip_behind("where") {
            terms = self.terms();
        } else {
            self.at = begin;
        }
        let descending = self.skip_behind("order") && self.has("desc");
        self.at = begin;
        let limit = if self.skip_behind("limit") { self.number() } else { None };
        Some(Statement::Find { what, table, terms, limit, descending })
    }

    fn number(&mut self) -> Option<u64> {
        match self.peek() {
            Some(Token::Constant(Key::Number(number))) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Takes the conditions joined by AND up to the end of the WHERE; an OR makes all of them unclear.
    fn terms(&mut self) -> Vec<Term> {
        let mut terms = Vec::new();
        loop {
            terms.push(self.term());
            // Whatever of a term was not understood.
            let mut depth = 0;
            loop {
                match self.peek() {
                    None | Some(Token::Sign(";")) => return terms,
                    Some(Token::Sign("(")) => depth += 1,
                    Some(Token::Sign(")")) => depth -= 1,
                    Some(Token::Word(word, false)) if depth <= 0 => {
                        match word.to_ascii_lowercase().as_str() {
                            "and" => break,
                            "or" => return vec![Term { column: String::new(), values: Values::Unclear }],
                            "order" | "limit" | "group" | "for" | "returning" | "having" => return terms,
                            _ => unclear(&mut terms),
                        }
                    }
                    Some(_) => unclear(&mut terms),
                }
                self.at += 1;
            }
            self.at += 1;
        }
    }

    fn term(&mut self) -> Term {
        let _ = self.takes_sign("(");
        let column = self.name().unwrap_or_default();
        let values = self.values();
        let _ = self.takes_sign(")");
        Term { column, values: values.unwrap_or(Values::Unclear) }
    }

    fn values(&mut self) -> Option<Values> {
        if self.takes("between") {
            let low = self.constant()?;
            if !self.takes("and") {
                return None;
            }
            return Some(Values::Within(Bound::Included(low), Bound::Included(self.constant()?)));
        }
        if self.takes("in") {
            if !self.takes_sign("(") {
                return None;
            }
            let mut keys = vec![self.constant()?];
            while self.takes_sign(",") {
                keys.push(self.constant()?);
            }
            return self.takes_sign(")").then_some(Values::OneOf(keys));
        }
        let Some(Token::Sign(sign)) = self.peek() else { return None };
        let sign = *sign;
        self.at += 1;
        let key = self.constant()?;
        match sign {
            "=" | "<=>" => Some(Values::OneOf(vec![key])),
            "<" => Some(Values::Within(Bound::Unbounded, Bound::Excluded(key))),
            "<=" => Some(Values::Within(Bound::Unbounded, Bound::Included(key))),
            ">" => Some(Values::Within(Bound::Excluded(key), Bound::Unbounded)),
            ">=" => Some(Values::Within(Bound::Included(key), Bound::Unbounded)),
            _ => None,
        }
    }

    /// Takes a constant, which may have a sign or a cast.
    fn constant(&mut self) -> Option<Key> {
        let negative = self.takes_sign("-");
        let Some(Token::Constant(key)) = self.peek() else { return None };
        let key = match (key.clone(), negative) {
            (Key::Number(number), true) => Key::Number(-number),
            (Key::Text(_), true) => return None,
            (key, false) => key,
        };
        self.at += 1;
        if self.takes_sign("::") {
            self.name();
        }
        Some(key)
    }

    fn insert(&mut self) -> Option<Statement> {
        while self.takes("ignore")
            || self.takes("into")
            || self.takes("low_priority")
            || self.takes("delayed")
        {}
        let table = self.name()?;
        let mut columns = Vec::new();
        if self.takes_sign("(") {
            while !self.takes_sign(")") {
                columns.push(self.name()?);
                let _ = self.takes_sign(",");
            }
        }
        if !(self.takes("values") || self.takes("value")) {
            return None;
        }
        let mut rows = Vec::new();
        while self.takes_sign("(") {
            rows.push(self.row()?);
            let _ = self.takes_sign(",");
        }
        Some(Statement::Insert { table, columns, rows })
    }

    fn row(&mut self) -> Option<Vec<Option<Key>>> {
        let mut row = Vec::new();
        loop {
            let key = self.constant();
            let mut depth = 0;
            let mut is_plain = key.is_some();
            loop {
                match self.peek()? {
                    Token::Sign(")") if depth == 0 => {
                        self.at += 1;
                        row.push(key.filter(|_| is_plain));
                        return Some(row);
                    }
                    Token::Sign(",") if depth == 0 => break,
                    Token::Sign("(") => depth += 1,
                    Token::Sign(")") => depth -= 1,
                    _ => {}
                }
                is_plain = false;
                self.at += 1;
            }
            self.at += 1;
            row.push(key.filter(|_| is_plain));
        }
    }

    /// Parses ALTER TABLE, of which only a new primary key counts.
    fn alter(&mut self) -> Option<Statement> {
        if !self.takes("table") {
            return Some(Statement::Nothing);
        }
        let _ = self.takes("only");
        let table = self.name()?;
        let adds = self.skip_behind("primary") && self.takes("key") && self.takes_sign("(");
        let primary = if adds { self.name() } else { None };
        Some(Statement::Create { table, columns: Vec::new(), primary })
    }

    fn create(&mut self) -> Option<Statement> {
        let _ = self.takes("temporary") || self.takes("unlogged");
        if !self.takes("table") {
            return Some(Statement::Nothing);
        }
        while self.takes("if") || self.takes("not") || self.takes("exists") {}
        let table = self.name()?;
        if !self.takes_sign("(") {
            return Some(Statement::Nothing);
        }
        let (mut columns, mut primary, mut depth, mut begins) = (Vec::<String>::new(), None, 0, true);
        while let Some(token) = self.peek().cloned() {
            match token {
                Token::Sign("(") => depth += 1,
                Token::Sign(")") if depth == 0 => break,
                Token::Sign(")") => depth -= 1,
                Token::Sign(",") if depth == 0 => begins = true,
                Token::Word(word, false) if word.eq_ignore_ascii_case("primary") => {
                    self.at += 2;
                    let lists = self.takes_sign("(");
                    depth += i32::from(lists);
                    primary = if lists { self.name() } else { columns.last().cloned() };
                    begins = false;
                    continue;
                }
                Token::Word(word, _) if begins => {
                    begins = false;
                    let is_key = ["key", "unique", "constraint", "index", "foreign", "check"];
                    if !is_key.contains(&word.to_ascii_lowercase().as_str()) {
                        columns.extend(self.name());
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        Some(Statement::Create { table, columns, primary })
    }
}

fn unclear(terms: &mut [Term]) {
    if let Some(last) = terms.last_mut() {
        last.values = Values::Unclear;
    }
}
