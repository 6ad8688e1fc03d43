//! Statements as people and drivers write them.

use super::statement::{Find, Statement, Values, parse};
use crate::trace::build::Key;
use std::ops::Bound;

fn number(number: i128) -> Key {
    Key::Number(number)
}

fn found(text: &str) -> (Find, String, Vec<(String, Values)>, Option<u64>, bool) {
    match parse(text, &[Some(number(7)), None], true) {
        Some(Statement::Find { what, table, terms, limit, descending }) => {
            let terms = terms.into_iter().map(|term| (term.column, term.values)).collect();
            (what, table, terms, limit, descending)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn conditions_name_records() {
    let one = |key: Key| Values::OneOf(vec![key]);
    let id = |values: Values| vec![("id".to_string(), values)];
    let text = "SELECT a, (SELECT 1) FROM db.`Orders` AS o WHERE o.id = 5 FOR UPDATE;";
    assert_eq!(found(text), (Find::Select, "Orders".into(), id(one(number(5))), None, false));
    let text = "select * from t where id between 3 and 9 order by id desc limit 10";
    let within = Values::Within(Bound::Included(number(3)), Bound::Included(number(9)));
    assert_eq!(found(text), (Find::Select, "t".into(), id(within), Some(10), true));
    let text = "UPDATE t SET a = a + 1, b = 'x' WHERE id IN (1, -2, 'a''b')";
    let keys = vec![number(1), number(-2), Key::Text(b"a'b".to_vec())];
    assert_eq!(found(text), (Find::Update, "t".into(), id(Values::OneOf(keys)), None, false));
    let text = "DELETE FROM t /* old */ WHERE (id >= $1) -- and more";
    let from = Values::Within(Bound::Included(number(7)), Bound::Unbounded);
    assert_eq!(found(text), (Find::Delete, "t".into(), id(from), None, false));
    let (_, _, terms, _, _) = found("SELECT 1 FROM t WHERE id = 3 AND lower(name) = 'x' AND seen = ?");
    assert_eq!(terms[0].1, one(number(3)));
    assert_eq!((&terms[1].1, &terms[2].1), (&Values::Unclear, &one(number(7))));
    let (_, _, terms, _, _) = found("SELECT 1 FROM t WHERE id = 3 OR id = 4");
    assert_eq!(terms, [(String::new(), Values::Unclear)]);
    let (_, _, terms, _, _) = found("SELECT 1 FROM t WHERE id = id + 1");
    assert_eq!(terms[0].1, Values::Unclear);
}

#[test]
fn rows_are_inserted() {
    let text = "INSERT IGNORE INTO t (a, `id`) VALUES (1, 2), ('x', now()), (f(1, 2), NULL) \
                ON DUPLICATE KEY UPDATE a = 1";
    let rows = vec![
        vec![Some(number(1)), Some(number(2))],
        vec![Some(Key::Text(b"x".to_vec())), None],
        vec![None, None],
    ];
    let columns = vec!["a".to_string(), "id".to_string()];
    let expected = Statement::Insert { table: "t".into(), columns, rows };
    assert_eq!(parse(text, &[], true), Some(expected));
    let text = "CREATE TABLE IF NOT EXISTS t (a int NOT NULL, id bigint DEFAULT f(1, 2), PRIMARY KEY (id), KEY k (a))";
    let create = Statement::Create {
        table: "t".into(),
        columns: vec!["a".into(), "id".into()],
        primary: Some("id".into()),
    };
    assert_eq!(parse(text, &[], true), Some(create));
    let text = "create table public.t (id serial primary key, \"B\" text)";
    let create = Statement::Create {
        table: "t".into(),
        columns: vec!["id".into(), "B".into()],
        primary: Some("id".into()),
    };
    assert_eq!(parse(text, &[], false), Some(create));
    let text = "alter table t add constraint k primary key (id)";
    let alter = Statement::Create { table: "t".into(), columns: Vec::new(), primary: Some("id".into()) };
    assert_eq!(parse(text, &[], false), Some(alter));
}

#[test]
fn what_names_no_record_of_one_table_is_not_understood() {
    for text in [
        "SELECT * FROM a JOIN b ON a.id = b.id WHERE a.id = 1",
        "SELECT * FROM a, b WHERE a.id = 1",
        "DELETE a FROM a INNER JOIN b",
        "INSERT INTO t SELECT * FROM u",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "",
        "'",
        "(((",
    ] {
        assert_eq!(parse(text, &[], true), None, "{text}");
    }
    assert_eq!(parse("SELECT 1", &[], true), Some(Statement::Nothing));
    assert_eq!(parse("start transaction", &[], true), Some(Statement::Begin));
    assert_eq!(parse("ROLLBACK TO SAVEPOINT a", &[], true), None);
}

#[test]
fn what_names_no_record_may_be_anything() {
    let one = |text: &str, quoted: bool| match parse(text, &[], quoted) {
        Some(Statement::Find { table, terms, .. }) => {
            assert_eq!((table.as_str(), &terms[0].values), ("t", &Values::OneOf(vec![number(5)])), "{text}");
        }
        other => panic!("{text}: {other:?}"),
    };
    one("SELECT CHAR(65 USING utf8), TIMESTAMPDIFF(DAY, a, b) FROM t WHERE id = 5 LOCK IN SHARE MODE", true);
    one("UPDATE IGNORE t SET a = IF(b, 1, 2) WHERE id = 5", true);
    one("UPDATE ONLY t SET a[1] = 5 WHERE id = '5'::bigint RETURNING id", false);
    one("SELECT \"from\" FROM t WHERE t.id = 5 FOR NO KEY UPDATE", false);
    let hexadecimal = found("SELECT 1 FROM t WHERE id IN (0x1F, x'1F')").2;
    assert_eq!(hexadecimal[0].1, Values::OneOf(vec![Key::Text(b"0x1F".to_vec()); 2]));
}

#[test]
fn a_tree_too_deep_for_a_stack_is_not_made() {
    let terms = |count: usize| format!("SELECT 1 FROM t WHERE {}", vec!["(a = 1)"; count].join(" AND "));
    assert!(parse(&terms(1_000), &[], true).is_some());
    for text in [terms(20_000), terms(20_000).replace("AND", "OR"), terms(1).replace('(', &"(".repeat(4_000))]
    {
        assert_eq!(parse(&text, &[], true), None);
    }
    let rows = format!("INSERT INTO t VALUES {}", vec!["(1, -2, f(3))"; 5_000].join(", "));
    assert!(matches!(parse(&rows, &[], true), Some(Statement::Insert { rows, .. }) if rows.len() == 5_000));
}
