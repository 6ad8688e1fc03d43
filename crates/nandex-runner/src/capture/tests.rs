//! Lines of strace parsed as operations, and a real capture if strace is installed.

use super::*;
use crate::trace::write_text;

/// The operations of a log on a tree of these entries. `path -> to` is a link.
fn traced(before: &[&str], log: &str) -> String {
    let mut tree = Tree::new(b"/w", b"/w").unwrap();
    for path in before {
        let (path, to) = path.split_once(" -> ").map_or((*path, None), |(path, to)| (path, Some(to)));
        tree.existing(path.as_bytes(), to.map(str::as_bytes));
    }
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

const MISSING: &str = " = -1 ENOENT (No such file or directory)";

/// Runs one call on the directory of `dangling -> gone`, the file `file` and `link -> file`, keys 0, 1 and 2.
/// Where a call tells of `gone`, that is 2 and `link` is 3.
fn of_links(call: &str) -> String {
    traced(&["/w/dangling -> gone", "/w/file", "/w/link -> file"], &format!("1 {call}\n"))
}

#[test]
fn a_call_that_follows_a_link_is_about_both() {
    let calls = [
        r#"openat(AT_FDCWD</w>, "dangling", O_RDONLY)"#,
        r#"open("/w/dangling", O_RDONLY)"#,
        r#"openat(AT_FDCWD</w>, "./x/../dangling", O_WRONLY|O_TRUNC)"#,
        r#"stat("dangling", 0x7ffe)"#,
        r#"newfstatat(AT_FDCWD</w>, "dangling", 0x7ffe, 0)"#,
        r#"statx(AT_FDCWD</w>, "dangling", AT_STATX_SYNC_AS_STAT, STATX_ALL, 0x7ffe)"#,
        r#"access("dangling", R_OK)"#,
        r#"execve("dangling", ["dangling"], 0x7ffe /* 9 vars */)"#,
        r#"lstat("dangling/", 0x7ffe)"#,
        r#"truncate("dangling", 0)"#,
        r#"chmod("dangling", 0600)"#,
        r#"utimensat(AT_FDCWD</w>, "dangling", NULL, 0)"#,
    ];
    for call in calls {
        assert_eq!(of_links(&format!("{call}{MISSING}")), "hit 0; miss 2", "{call}");
    }
    let through = of_links(r#"openat(AT_FDCWD</w>, "link", O_RDONLY) = 3</w/file>"#);
    assert_eq!(through, "hit 2; hit 1");
    assert_eq!(of_links(r#"chmod("link", 0600) = 0"#), "hit 2; update 1");
    assert_eq!(of_links(r#"stat("link", {st_mode=S_IFREG|0644, ...}) = 0"#), "hit 2; hit 1");
    let made = of_links(r#"openat(AT_FDCWD</w>, "dangling", O_WRONLY|O_CREAT, 0666) = 3</w/gone>"#);
    assert_eq!(made, "hit 0; insert 2");
}

#[test]
fn a_call_that_does_not_follow_a_link_is_about_the_link() {
    let calls = [
        (r#"lstat("dangling", {st_mode=S_IFLNK|0777, ...}) = 0"#, "hit 0"),
        (
            r#"newfstatat(AT_FDCWD</w>, "dangling", {st_mode=S_IFLNK|0777, ...}, AT_SYMLINK_NOFOLLOW) = 0"#,
            "hit 0",
        ),
        (r#"readlink("dangling", "gone", 4096) = 4"#, "hit 0"),
        (r#"unlink("dangling") = 0"#, "remove 0"),
        (r#"unlinkat(AT_FDCWD</w>, "link", 0) = 0"#, "remove 2"),
        (r#"rename("dangling", "other") = 0"#, "remove 0; insert 3"),
        (r#"rename("file", "link") = 0"#, "remove 1; update 2"),
        (r#"fchownat(AT_FDCWD</w>, "link", 1, 1, AT_SYMLINK_NOFOLLOW) = 0"#, "update 2"),
        (r#"mkdir("dangling", 0777) = -1 EEXIST (File exists)"#, "hit 0"),
        (
            r#"openat(AT_FDCWD</w>, "dangling", O_WRONLY|O_CREAT|O_EXCL, 0666) = -1 EEXIST (File exists)"#,
            "hit 0",
        ),
        (
            r#"renameat2(AT_FDCWD</w>, "file", AT_FDCWD</w>, "link", RENAME_EXCHANGE) = 0"#,
            "update 1; update 2",
        ),
    ];
    for (call, expected) in calls {
        assert_eq!(of_links(call), expected, "{call}");
    }
}

#[test]
fn links_come_go_and_move() {
    let log = r#"1 symlink("gone", "new") = 0
1 stat("new", 0x7ffe) = -1 ENOENT (No such file or directory)
1 link("new", "twin") = 0
1 rename("new", "moved") = 0
1 stat("moved", 0x7ffe) = -1 ENOENT (No such file or directory)
1 stat("twin", 0x7ffe) = -1 ENOENT (No such file or directory)
1 unlink("twin") = 0
1 stat("twin", 0x7ffe) = -1 ENOENT (No such file or directory)
1 unlink("moved") = 0
1 mkdir("moved", 0777) = 0
1 stat("moved", {st_mode=S_IFDIR|0755, ...}) = 0
"#;
    // gone, moved, new, twin.
    let expected = "insert 2; hit 2; miss 0; insert 3; remove 2; insert 1; hit 1; miss 0; hit 3; miss 0; \
                    remove 3; miss 3; remove 1; insert 1; hit 1";
    assert_eq!(traced(&[], log), expected);
    let log = r#"1 unlink("short/x") = 0
1 rename("d", "e") = 0
1 stat("e/up", {st_mode=S_IFDIR|0755, ...}) = 0
1 chdir("short") = -1 ENOENT (No such file or directory)
1 stat("circle", 0x7ffe) = -1 ELOOP (Too many levels of symbolic links)
"#;
    let before =
        ["/w/circle -> circle", "/w/d", "/w/short -> ./d/", "/w/d/up -> ../file", "/w/d/x", "/w/file"];
    // circle, d, e, file, short; up, x.
    assert_eq!(traced(&before, log), "remove 6; remove 1; insert 2; hit 5; hit 3; hit 4");
}

#[test]
fn a_call_with_two_names_does_not_tell_which_is_missing() {
    for call in [r#"rename("file", "none/b")"#, r#"link("file", "none/b")"#, r#"execve("file", [], 0x7f)"#] {
        assert_eq!(of_links(&format!("{call}{MISSING}")), "hit 1", "{call}");
    }
    for call in [r#"rename("gone", "file")"#, r#"link("gone", "file")"#] {
        assert_eq!(of_links(&format!("{call}{MISSING}")), "miss 2", "{call}");
    }
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

    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("gone", folder.path().join("dangling")).unwrap();
    let script =
        format!("cd {}; cat dangling 2>/dev/null; rm -f none; ln -s x y; cat < y", folder.path().display());
    let command = ["sh", "-c", &script].map(OsString::from);
    let summary = capture(&command, folder.path(), Numbering::Hashed(1)).unwrap().trace.summary();
    assert_eq!((summary.contradictions, summary.deletes, summary.inserts), (0, 0, 1), "{summary:?}");
    assert_eq!(summary.trees[&0].records_end, 2);
}
