//! Walks a folder of raw logs in a fixed order.

use std::path::{Path, PathBuf};

use crate::TraceError;

/// Deepest folder that is searched; published results nest about eight deep.
const MAX_DEPTH: usize = 16;

/// A folder and the names of its files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Sorted; names that are not UTF-8 are left out, since no format writes such.
    pub(super) files: Vec<String>,
}

/// `root` and every folder below it, sorted by path. Links to folders are not followed.
pub(super) fn walk(root: &Path) -> Result<Vec<Folder>, TraceError> {
    let mut folders = Vec::new();
    visit(root, 0, &mut folders)?;
    Ok(folders)
}

fn visit(path: &Path, depth: usize, folders: &mut Vec<Folder>) -> Result<(), TraceError> {
    let list = std::fs::read_dir(path).map_err(TraceError::io("list folder", path))?;
    let (mut files, mut below) = (Vec::new(), Vec::new());
    for entry in list {
        let entry = entry.map_err(TraceError::io("list folder", path))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(TraceError::io("examine", &entry.path()))?;
        if kind.is_dir() {
            below.push(entry.path());
        } else if entry.path().is_file() {
            files.push(name);
        }
    }
    files.sort();
    below.sort();
    folders.push(Folder { path: path.to_owned(), files });
    if depth < MAX_DEPTH {
        for folder in below {
            visit(&folder, depth + 1, folders)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_sorted_with_their_files() {
        let root = tempfile::tempdir().unwrap();
        for file in ["b/2", "b/1", "a/x/y", "top"] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let walked = walk(root.path()).unwrap();
        let shown: Vec<String> = walked
            .iter()
            .map(|folder| {
                let path = folder.path.strip_prefix(root.path()).unwrap();
                format!("{} [{}]", path.display(), folder.files.join(" "))
            })
            .collect();
        assert_eq!(shown, [" [top]", "a []", "a/x [y]", "b [1 2]"]);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_in_a_circle_ends() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("again")).unwrap();
        assert_eq!(walk(root.path()).unwrap().len(), 1);
    }
}
