use super::*;
use crate::testing::{TestArchive, manifest};
use crate::{ReadOptions, read_manifest, read_run};

fn relative(runs: &[RunLocation]) -> Vec<&str> {
    runs.iter().map(|run| run.relative.as_str()).collect()
}

#[test]
fn runs_are_found_at_any_depth_in_the_order_of_their_paths() {
    let archive = TestArchive::new();
    for parent in ["model=b/hardware=x", "model=a", "."] {
        let below = archive.path().join(parent);
        crate::RunWriter::create(&below, "run").unwrap().finish(manifest("run")).unwrap();
    }
    fs::create_dir(archive.path().join("empty")).unwrap();
    let runs = find_runs(archive.path()).unwrap();
    assert_eq!(relative(&runs), ["model=a/run", "model=b/hardware=x/run", "run"]);
    let inside = find_runs(&archive.path().join("run")).unwrap();
    assert_eq!(relative(&inside), ["."]);
    assert_eq!(read_manifest(&inside[0]).unwrap().run_id, "run");
}

#[test]
fn an_archive_without_a_run_is_an_error_that_says_what_one_is() {
    let archive = TestArchive::new();
    let error = find_runs(archive.path()).unwrap_err();
    insta::assert_snapshot!(archive.shown(&error), @r#""ARCHIVE" holds no run; expected a folder with a run.json in it or below it"#);
    let error = find_runs(&archive.path().join("nowhere")).unwrap_err();
    insta::assert_snapshot!(archive.shown(&error), @r#"cannot open archive "ARCHIVE/nowhere""#);
}

#[test]
fn unfinished_folders_are_listed_apart() {
    let archive = TestArchive::new();
    archive.write(manifest("whole"), |_| ());
    // One whose writer was killed, one that a recorder left with rows but no run.json.
    let partial = archive.path().join(".cut.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(RUN_JSON), "{}").unwrap();
    let recorded = archive.path().join("recorded");
    fs::create_dir(&recorded).unwrap();
    fs::write(recorded.join("power.parquet"), "").unwrap();
    // A folder with tables of somebody else is none of ours.
    fs::create_dir(archive.path().join("results")).unwrap();
    fs::write(archive.path().join("results/runs.parquet"), "").unwrap();
    let listing = list_archive(archive.path()).unwrap();
    assert_eq!(relative(&listing.runs), ["whole"]);
    assert_eq!(relative(&listing.unfinished), [".cut.partial", "recorded"]);
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::power;

    #[test]
    fn a_link_out_of_the_archive_is_refused_and_one_inside_is_not_followed_twice() {
        let (archive, elsewhere) = (TestArchive::new(), TestArchive::new());
        let secret = elsewhere.write(manifest("secret"), |_| ());
        let run = archive.write(manifest("a"), |writer| {
            writer.power(power(0, "gpu0", 300.0)).unwrap();
        });
        symlink(&secret.folder, archive.path().join("linked")).unwrap();
        symlink(&run.folder, archive.path().join("again")).unwrap();
        symlink(archive.path(), archive.path().join("cycle")).unwrap();
        symlink(elsewhere.path(), archive.path().join("outside")).unwrap();
        symlink("nowhere", archive.path().join("dangling")).unwrap();
        let listing = list_archive(archive.path()).unwrap();
        assert_eq!(relative(&listing.runs), ["a", "linked"]);
        assert_eq!(relative(&listing.outside), ["linked", "outside"]);
        let error = read_run(&listing.runs[1], ReadOptions::default()).unwrap_err();
        let message = archive.shown(&error).replace(
            &fs::canonicalize(elsewhere.path()).unwrap().display().to_string(),
            "ELSEWHERE",
        );
        insta::assert_snapshot!(message, @r#""ARCHIVE/linked/run.json" leads out of the archive to "ELSEWHERE/secret/run.json"; expected a file inside the archive"#);
    }

    #[test]
    fn a_linked_file_is_read_inside_the_archive_and_refused_outside() {
        let (archive, elsewhere) = (TestArchive::new(), TestArchive::new());
        let run = archive.write(manifest("a"), |writer| {
            writer.power(power(0, "gpu0", 300.0)).unwrap();
        });
        let file = run.folder.join("power.parquet");
        let inside = archive.path().join("shared.parquet");
        fs::rename(&file, &inside).unwrap();
        symlink(&inside, &file).unwrap();
        assert_eq!(read_run(&run, ReadOptions::default()).unwrap().run.power.len(), 1);

        let outside = elsewhere.path().join("power.parquet");
        fs::rename(&inside, &outside).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(&outside, &file).unwrap();
        let error = read_run(&run, ReadOptions::default()).unwrap_err();
        assert!(matches!(error, TraceError::Outside { .. }), "{error}");
        assert_eq!(relative(&find_runs(archive.path()).unwrap()), ["a"]);
    }
}

#[test]
fn the_digest_follows_the_content_and_the_path_of_each_run() {
    let archive = TestArchive::new();
    archive.write(manifest("a"), |_| ());
    let one = archive_digest(&find_runs(archive.path()).unwrap());
    let b = archive.write(manifest("b"), |_| ());
    let mut runs = find_runs(archive.path()).unwrap();
    let two = archive_digest(&runs);
    assert_ne!(one, two);
    runs.reverse();
    assert_eq!(archive_digest(&runs), two);
    fs::remove_file(b.folder.join(RUN_JSON)).unwrap();
    // What `printf 'a\t%s\nb\tunreadable\n' $(sha256sum a/run.json) | sha256sum` prints.
    let a = sha256_hex(&fs::read(archive.path().join("a/run.json")).unwrap());
    assert_eq!(archive_digest(&runs), sha256_hex(format!("a\t{a}\nb\tunreadable\n").as_bytes()));
}
