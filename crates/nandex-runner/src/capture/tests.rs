//! Lines of strace parsed as operations, and a real capture if strace is installed.

use super::*;
use crate::trace::write_text;

fn traced(before: &[&str], log: &str) -> String {
    let mut tree = Tree::new(b"/w", b"/w").unwrap();
    before.iter().for_each(|path| tree.existing(path.as_bytes()));
    follow(log.as_bytes(), &mut tree).unwrap();
    let trace = tree.into_builder().finish("t", Numbering::Keep);
    let mut out = Vec::new();
    write_text(&trace.records, &mut out).unwrap();
    assert_eq!(trace.summary().contradictions, 0);
    String::from_utf8(out).unwrap().trim_end().replace('\n', "; ")
}

#[test]
fn calls_are_operations_on_entries() {
    let log = r#"1 openat(AT_FDCWD</w>, "b", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/b>
1 write(3</w/b>, ""..., 5) = 5
1 write(3</w/b>, ""..., 5) = 5
1 close(3</w/b>) = 0
1 newfstatat(AT_FDCWD</w>, "c", 0x7ffe, 0) = -1 ENOENT (No such file or directory)
1 newfstatat(3</w/b>, "", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0
1 stat("/etc/passwd", {st_mode=S_IFREG|0644, ...}) = 0
1 fsync(3</w/b>) = 0
1 rename("b", "c") = 0
1 unlink("a") = 0
"#;
    // Of one directory: a, b, c.
    assert_eq!(traced(&["/w/a"], log), "insert 1; update 1; miss 2; sync; remove 1; insert 2; remove 0");
}

#[test]
fn a_directory_keeps_its_number_and_children_work_where_their_parent_was() {
    let log = r#"1 mkdir("d", 0777) = 0
1 chdir("d") = 0
1 vfork( <unfinished ...>
2 openat(AT_FDCWD</w/d>, "x", O_WRONLY|O_CREAT, 0666) = 3</w/d/x>
2 mkdir("e", 0777) = 0
1 <... vfork resumed>) = 2
1 chdir("..") = 0
1 rename("d", "f") = 0
1 openat(AT_FDCWD</w>, "f", O_RDONLY|O_DIRECTORY) = 4</w/f>
1 getdents64(4</w/f>, 0x55 /* 4 entries */, 32768) = 96
1 getdents64(4</w/f>, 0x55 /* 0 entries */, 32768) = 0
1 unlink("f/x") = 0
1 rmdir("f/none") = -1 ENOENT (No such file or directory)
"#;
    // The root has d and f, the directory e, none and x.
    let expected = "insert 0; insert 4; insert 2; remove 0; insert 1; hit 1; range 2 2; remove 4; miss 3";
    assert_eq!(traced(&[], log), expected);
}

#[test]
fn a_real_program_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "1").unwrap();
    let script = format!("cd {}; cp a b; mkdir d; mv b d/c; rm a; ls d >/dev/null", folder.path().display());
    let command = ["sh", "-c", &script].map(OsString::from);
    let captured = match capture(&command, folder.path(), Numbering::Hashed(1)) {
        Err(LabError::Io { file, error }) if file == "strace" => {
            assert!(error.to_string().contains("apt install strace"));
            return;
        }
        captured => captured.unwrap(),
    };
    assert!(captured.status.success());
    let summary = captured.trace.summary();
    assert_eq!((summary.init_records, summary.contradictions), (1, 0));
    assert_eq!((summary.inserts, summary.deletes, summary.ranges), (3, 2, 1), "{summary:?}");
    assert_eq!(summary.trees[&0].records_end, 2);
}
