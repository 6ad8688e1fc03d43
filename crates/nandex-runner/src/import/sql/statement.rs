//! Parses SQL statements by their effects on keys. Only statements that name records of one table are used;
//! nothing is guessed.

use crate::trace::build::Key;
use sqlparser::ast::{
    self, AlterTableOperation, BinaryOperator, CastKind, ColumnOption, Expr, Ident, InTarget, LimitClause,
    ObjectName, OrderByExpr, OrderByKind, OrderBySort, Query, SetExpr, TableConstraint, TableFactor,
    TableObject, TableWithJoins, UnaryOperator, Value,
};
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};
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

/// Most tokens between two commas, counted over all levels of brackets: an expression tree of so many
/// operators can be dropped on any stack.
const CHAIN_MAX: usize = 5_000;

/// The statement in this text. `quoted_texts`: double quotes are around texts and not around names.
pub(super) fn parse(text: &str, parameters: &[Option<Key>], quoted_texts: bool) -> Option<Statement> {
    let dialect: &dyn Dialect = if quoted_texts { &MySqlDialect {} } else { &PostgreSqlDialect {} };
    let mut tokens = Tokenizer::new(dialect, text).tokenize().ok()?;
    tokens.retain(|token| !matches!(token, Token::Whitespace(_)));
    fill_in(&mut tokens, parameters);
    let has = |word: &str, among: usize| tokens.iter().take(among).any(|token| is_word(token, word));
    let Token::Word(first) = tokens.first()? else { return None };
    match first.value.to_ascii_lowercase().as_str() {
        "select" => leave_out(&mut tokens, "select", &["from"], &[one()]),
        "update" => {
            let ends = ["where", "from", "order", "limit", "returning"];
            leave_out(&mut tokens, "set", &ends, &[Token::make_word("a", None), Token::Eq, one()]);
        }
        "delete" | "insert" | "replace" => {}
        "create" if has("table", 4) => {}
        "alter" if has("primary", usize::MAX) => {}
        "begin" => return Some(Statement::Begin),
        "start" => return has("transaction", 2).then_some(Statement::Begin),
        "commit" | "end" => return Some(Statement::Commit),
        "rollback" | "abort" if !has("to", usize::MAX) => return Some(Statement::Rollback),
        "set" | "show" | "use" | "explain" | "analyze" | "vacuum" | "savepoint" | "release" | "discard"
        | "prepare" | "deallocate" | "drop" | "execute" | "lock" | "unlock" | "grant" | "checkpoint"
        | "flush" | "create" | "alter" => return Some(Statement::Nothing),
        _ => return None,
    }
    leave_out_words(&mut tokens);
    if is_chained(&tokens) {
        return None;
    }
    of_ast(Parser::new(dialect).with_tokens(tokens).parse_statement().ok()?)
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn one() -> Token {
    Token::Number("1".to_string(), false)
}

/// Replaces placeholders by the parameters in the log.
fn fill_in(tokens: &mut [Token], parameters: &[Option<Key>]) {
    let mut unnumbered = 0..;
    for token in tokens {
        let name = match &*token {
            Token::Placeholder(name) => name,
            Token::Word(word) if word.value.starts_with('$') => &word.value,
            _ => continue,
        };
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let place = number.map_or_else(|| unnumbered.next(), |number| number.checked_sub(1));
        match place.and_then(|place| parameters.get(place)) {
            Some(Some(Key::Number(number))) => *token = Token::Number(number.to_string(), false),
            Some(Some(Key::Text(text))) => {
                *token = Token::SingleQuotedString(String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
    }
}

/// Replaces the selected columns or set values, which may be any expression and name no record.
fn leave_out(tokens: &mut Vec<Token>, behind: &str, ends: &[&str], instead: &[Token]) {
    let Some(begin) = tokens.iter().position(|token| is_word(token, behind)) else { return };
    let mut depth = 0;
    let ends = |token: &Token| {
        depth += i32::from(*token == Token::LParen) - i32::from(*token == Token::RParen);
        depth == 0 && (*token == Token::SemiColon || ends.iter().any(|end| is_word(token, end)))
    };
    let end = tokens[begin..].iter().position(ends).map_or(tokens.len(), |end| begin + end);
    tokens.splice(begin + 1..end, instead.iter().cloned());
}

/// Words that the parser does not know: UPDATE IGNORE, FOR NO KEY UPDATE, FOR KEY SHARE.
fn leave_out_words(tokens: &mut Vec<Token>) {
    let after_for = tokens.iter().rposition(|token| is_word(token, "for")).map(|at| (at + 1, ["no", "key"]));
    let after_update = is_word(&tokens[0], "update").then_some((1, ["ignore"; 2]));
    for (at, words) in after_for.into_iter().chain(after_update) {
        let count =
            tokens[at..].iter().take_while(|token| words.iter().any(|word| is_word(token, word))).count();
        tokens.drain(at..at + count);
    }
}

/// True if a chain of operators is so long that its expression tree would be too deep.
fn is_chained(tokens: &[Token]) -> bool {
    let (mut levels, mut length) = (vec![0], 0);
    tokens.iter().any(|token| {
        match token {
            Token::LParen => levels.push(0),
            Token::RParen => length -= levels.pop().unwrap_or(0),
            Token::Comma => length -= levels.last_mut().map_or(0, std::mem::take),
            _ => {
                length += 1;
                levels.last_mut().into_iter().for_each(|level| *level += 1);
            }
        }
        length > CHAIN_MAX
    })
}

fn of_ast(statement: ast::Statement) -> Option<Statement> {
    match statement {
        ast::Statement::Query(query) => select(&query),
        ast::Statement::Update(update) => {
            let tail = (&update.order_by[..], update.limit.as_ref());
            find(Find::Update, &[update.table], update.selection.as_ref(), tail)
        }
        ast::Statement::Delete(delete) if delete.tables.is_empty() => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            let tail = (&delete.order_by[..], delete.limit.as_ref());
            find(Find::Delete, from, delete.selection.as_ref(), tail)
        }
        ast::Statement::Insert(insert) => {
            let TableObject::TableName(table) = &insert.table else { return None };
            let SetExpr::Values(values) = &*insert.source.as_ref()?.body else { return None };
            Some(Statement::Insert {
                table: last(table)?,
                columns: insert.columns.iter().map(last).collect::<Option<_>>()?,
                rows: values.rows.iter().map(|row| row.content.iter().map(constant).collect()).collect(),
            })
        }
        ast::Statement::CreateTable(create) => {
            let is_primary = |column: &&ast::ColumnDef| {
                column.options.iter().any(|option| matches!(option.option, ColumnOption::PrimaryKey(_)))
            };
            let of_column = || create.columns.iter().find(is_primary).map(|column| name(&column.name));
            Some(Statement::Create {
                table: last(&create.name)?,
                columns: create.columns.iter().map(|column| name(&column.name)).collect(),
                primary: create.constraints.iter().find_map(primary).or_else(of_column),
            })
        }
        ast::Statement::AlterTable(alter) => {
            let added = |operation: &AlterTableOperation| match operation {
                AlterTableOperation::AddConstraint { constraint, .. } => primary(constraint),
                _ => None,
            };
            let primary = alter.operations.iter().find_map(added);
            Some(Statement::Create { table: last(&alter.name)?, columns: Vec::new(), primary })
        }
        ast::Statement::Delete(_) => None,
        _ => Some(Statement::Nothing),
    }
}

/// A name as SQL compares it.
fn name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// Last part of a qualified name.
fn last(qualified: &ObjectName) -> Option<String> {
    qualified.0.last()?.as_ident().map(name)
}

fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(name(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(name),
        _ => None,
    }
}

/// The first column of a primary key.
fn primary(constraint: &TableConstraint) -> Option<String> {
    let TableConstraint::PrimaryKey(key) = constraint else { return None };
    column(&key.columns.first()?.column.expr)
}

fn select(query: &Query) -> Option<Statement> {
    let SetExpr::Select(select) = &*query.body else { return None };
    if select.from.is_empty() {
        return Some(Statement::Nothing);
    }
    let order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => &order[..],
        _ => &[],
    };
    let limit = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => limit.as_ref(),
        Some(LimitClause::OffsetCommaLimit { limit, .. }) => Some(limit),
        None => None,
    };
    find(Find::Select, &select.from, select.selection.as_ref(), (order, limit))
}

/// A statement about one table; with several, which key belongs to which is not known.
fn find(
    what: Find,
    from: &[TableWithJoins],
    selection: Option<&Expr>,
    (order, limit): (&[OrderByExpr], Option<&Expr>),
) -> Option<Statement> {
    let [TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] = from else {
        return None;
    };
    let limit = match limit.and_then(constant) {
        Some(Key::Number(limit)) => u64::try_from(limit).ok(),
        _ => None,
    };
    let terms = selection.map_or_else(Vec::new, terms);
    let descending = order.iter().any(|by| by.options.sort == Some(OrderBySort::Desc));
    let table = last(name).filter(|_| joins.is_empty())?;
    Some(Statement::Find { what, table, terms, limit, descending })
}

/// Conditions joined by AND.
fn terms(selection: &Expr) -> Vec<Term> {
    let (mut terms, mut rest) = (Vec::new(), vec![selection]);
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => rest.extend([&**right, &**left]),
            Expr::Nested(inner) => rest.push(inner),
            expr => terms.push(term(expr)),
        }
    }
    terms
}

fn term(expr: &Expr) -> Term {
    let (of, values) = match expr {
        Expr::Between { expr, negated: false, low, high } => {
            let within = |(low, high)| Values::Within(Bound::Included(low), Bound::Included(high));
            (expr, constant(low).zip(constant(high)).map(within))
        }
        Expr::In { expr, target: InTarget::List(list), negated: false, .. } => {
            (expr, list.iter().map(constant).collect::<Option<Vec<Key>>>().map(Values::OneOf))
        }
        Expr::BinaryOp { left, op, right } => (left, constant(right).and_then(|key| compared(op, key))),
        _ => return Term { column: String::new(), values: Values::Unclear },
    };
    match (column(of), values) {
        (Some(column), Some(values)) => Term { column, values },
        (column, _) => Term { column: column.unwrap_or_default(), values: Values::Unclear },
    }
}

fn compared(op: &BinaryOperator, key: Key) -> Option<Values> {
    match op {
        BinaryOperator::Eq | BinaryOperator::Spaceship => Some(Values::OneOf(vec![key])),
        BinaryOperator::Lt => Some(Values::Within(Bound::Unbounded, Bound::Excluded(key))),
        BinaryOperator::LtEq => Some(Values::Within(Bound::Unbounded, Bound::Included(key))),
        BinaryOperator::Gt => Some(Values::Within(Bound::Excluded(key), Bound::Unbounded)),
        BinaryOperator::GtEq => Some(Values::Within(Bound::Included(key), Bound::Unbounded)),
        _ => None,
    }
}

/// A constant, negative or cast.
fn constant(expr: &Expr) -> Option<Key> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(Key::of_word(number)),
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::NationalStringLiteral(text) => Some(Key::of_word(text)),
            Value::HexStringLiteral(digits) => Some(Key::of_word(&format!("0x{digits}"))),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            Key::Number(number) => Some(Key::Number(-number)),
            Key::Text(_) => None,
        },
        Expr::Cast { kind: CastKind::DoubleColon, expr, .. } => constant(expr),
        _ => None,
    }
}
