//! Logs as other systems write them, and the traces made of them.

use super::*;
use crate::trace::write_text;

fn import_of(log: &str, options: &ImportOptions) -> Result<Imported, LabError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, log).unwrap();
    import(&path, options)
}

fn lines(imported: &Imported) -> String {
    let mut out = Vec::new();
    write_text(&imported.trace.records, &mut out).unwrap();
    assert_eq!(imported.trace.summary().contradictions, 0);
    String::from_utf8(out).unwrap().trim_end().replace('\n', "; ")
}

fn read(log: &str) -> Imported {
    import_of(log, &ImportOptions::default()).unwrap()
}

const MYSQL: &str = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB. started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
241124 10:30:00\t    31 Connect\troot@localhost on shop using Socket
\t\t    31 Query\tCREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT,
  name TEXT)
\t\t    31 Query\tINSERT INTO t (name) VALUES ('a'), ('b')
241124 10:30:01\t    31 Query\tSELECT * FROM t WHERE id = 2
\t\t    32 Query\tSELECT * FROM t WHERE name = 'b'
\t\t    31 Query\tSTART TRANSACTION
\t\t    31 Query\tUPDATE t SET name = 'c' WHERE id = 1
\t\t    31 Query\tDELETE FROM t
 WHERE id IN (2, 9)
\t\t    31 Query\tROLLBACK
\t\t    31 Query\tSELECT * FROM t ORDER BY id DESC LIMIT 5
\t\t    31 Quit\t
";

#[test]
fn a_general_log_of_mysql() {
    let imported = read(MYSQL);
    assert_eq!(imported.format, Format::Mysql);
    // 9 was never inserted, so it was there before.
    assert_eq!(
        lines(&imported),
        "insert 1; insert 2; sync; hit 2; update 1; remove 2; remove 9; insert 9; insert 2; update 1; range 9 -3"
    );
    assert_eq!(imported.tables, [("t".to_string(), "id".to_string())]);
    let passed = (imported.passed_over, imported.first_passed.clone().unwrap());
    assert_eq!(passed, (1, (9, "SELECT * FROM t WHERE name = 'b'".to_string())));
    let by_name = ImportOptions { keys: vec![("t".into(), "name".into())], ..ImportOptions::default() };
    assert_eq!(import_of(MYSQL, &by_name).unwrap().tables[0].1, "name");
    let empty = ImportOptions { starts_empty: true, without_syncs: true, ..ImportOptions::default() };
    let expected = "insert 1; insert 2; hit 2; update 1; remove 2; miss 9; insert 2; update 1; range 2 -2";
    assert_eq!(lines(&import_of(MYSQL, &empty).unwrap()), expected);
}

#[test]
fn a_statement_log_of_postgresql() {
    let log = "2026-11-24 10:30:00.100 UTC [77] LOG:  statement: BEGIN;
2026-11-24 10:30:00.101 UTC [77] LOG:  execute <unnamed>: UPDATE accounts
\tSET balance = balance + $1 WHERE aid = $2
2026-11-24 10:30:00.101 UTC [77] DETAIL:  parameters: $1 = '-5', $2 = '41'
2026-11-24 10:30:00.102 UTC [78] LOG:  duration: 0.123 ms  statement: SELECT 1 FROM accounts WHERE aid >= 40 LIMIT 2
2026-11-24 10:30:00.103 UTC [77] LOG:  statement: END;
2026-11-24 10:30:00.104 UTC [78] LOG:  statement: INSERT INTO accounts (aid) VALUES (41)
2026-11-24 10:30:00.104 UTC [78] ERROR:  duplicate key value violates unique constraint
2026-11-24 10:30:00.104 UTC [78] STATEMENT:  INSERT INTO accounts (aid) VALUES (41)
2026-11-24 10:30:00.105 UTC [1] LOG:  checkpoint starting: time
";
    let imported = read(log);
    assert_eq!((imported.format, imported.passed_over), (Format::Postgres, 0));
    assert_eq!(lines(&imported), "update 41; range 41 1; sync");
    assert_eq!(imported.trace.init.len(), 1);
}

#[test]
fn operations_of_ycsb() {
    let log = "***************** properties *****************
\"recordcount\"=\"3\"
INSERT usertable user3 [ field0=abc def ]
READ usertable user1 [ <all fields>]
SCAN usertable user1 50 [ <all fields>]
UPDATE usertable user2 [ field0=x ]
DELETE usertable user3
[OVERALL], RunTime(ms), 12
";
    let imported = read(log);
    assert_eq!((imported.format, imported.followed), (Format::Ycsb, 5));
    assert_eq!(lines(&imported), "insert 2; hit 0; range 0 2; update 1; remove 2");
}

#[test]
fn operations_of_rocksdb_in_both_orders_of_columns() {
    let new = "0x6B31 1 0 100 1550000000\n0x6B31 0 0 0 1550000001\n0x6B30 6 0 0 1550000002\n0x6B 4 0 0 3\n\
               0x6B31 7 1 0 4\n0x6B31 2 0 0 5\n";
    let imported = read(new);
    assert_eq!((imported.format, imported.passed_over), (Format::Rocksdb, 1));
    assert_eq!(lines(&imported), "insert 0; hit 0; range 0 1; range 1:0 -1; remove 0");
    let old = "1 0 100 1550000000 6b31\n8 0 0 1550000001 6b31\n";
    assert_eq!(lines(&read(old)), "insert 0; hit 0");
    let error =
        import_of("1 0 100 15\n", &ImportOptions { format: Some(Format::Rocksdb), ..Default::default() });
    assert!(error.unwrap_err().to_string().contains("line 1: has not a key in hexadecimal"));
}

#[test]
fn each_look_up_of_a_block_cache_once() {
    let access = |block: u32, caller: u32, get: u32, key: u32| {
        format!("15500{block},{block},9,4096,0,default,1,12,{caller},0,{get},{key},0,1,1,30,2,3,20,5,6\n")
    };
    let log = [access(1, 1, 7, 2), access(2, 1, 7, 2), access(3, 3, 0, 0), access(4, 1, 8, 1)].concat();
    let imported = read(&log);
    assert_eq!((imported.format, imported.passed_over), (Format::RocksdbBlocks, 1));
    assert_eq!(lines(&imported), "hit 2; hit 1");
}

#[test]
fn a_table_of_operations() {
    let log = "time,key,size,op,count\n1,b,3,SET,\n2,a,3,get,\n3,a,3,scan,9\n4,b,0,delete,\n";
    assert_eq!(lines(&read(log)), "insert 1; hit 0; range 0 2; remove 1");
    assert_eq!(lines(&read("get,5\nput,7\nscan,5,2\nsync,\n")), "hit 5; insert 7; range 5 2; sync");
    let columns = ImportOptions { columns: Some("_,key,op".into()), ..ImportOptions::default() };
    let options = ImportOptions { format: Some(Format::Csv), ..columns };
    assert_eq!(lines(&import_of("1,5,get\n2,6,set\n", &options).unwrap()), "hit 5; insert 6");
    for (log, why) in
        [("get,5\nfly,6\n", "line 2: 'fly' is no operation"), ("get,5\nget,\n", "line 2: a get has a key")]
    {
        let error = import_of(log, &ImportOptions::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn hashed_keys_keep_their_order_and_nothing_else() {
    let hashed = ImportOptions { numbering: Numbering::Hashed(5), ..ImportOptions::default() };
    let log = "put,carol\nput,alice\nput,bob\nget,carol\n";
    let records = import_of(log, &hashed).unwrap().trace.records;
    let [carol, alice, bob, again] = [0, 1, 2, 3].map(|at: usize| records[at].key);
    assert!(alice < bob && bob < carol && carol == again && carol > 1 << 32, "{alice} {bob} {carol}");
    assert_eq!(import_of(log, &hashed).unwrap().trace.records, records);
}

#[test]
fn what_is_no_log_is_told() {
    let error = import_of("hello\nworld\n", &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("is of no known format; say which it is of mysql, postgres"), "{error}");
    let options = ImportOptions { format: Some(Format::Mysql), ..ImportOptions::default() };
    let error = import_of("\t\t  1 Query\tSELECT a FROM b, c\n", &options).unwrap_err().to_string();
    assert!(error.contains("as mysql it has no operation on a key; line 1: SELECT a FROM b, c"), "{error}");
}
