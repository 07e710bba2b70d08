//! A repository for a test environment, inspected with plain git: the tests compare Sexton's statements about work
//! with what git finds.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::TestEnv;

/// A repository with some history.
pub struct Repository {
    path: PathBuf,
    home: PathBuf,
}

impl Repository {
    /// Makes the working directory of the test environment a repository with one commit.
    pub fn in_work_dir(test_env: &TestEnv) -> Repository {
        Repository::at(test_env, &test_env.work_dir())
    }

    /// Returns the repository that exists in the working directory of the test environment.
    pub fn of_work_dir(test_env: &TestEnv) -> Repository {
        Repository { path: test_env.work_dir(), home: test_env.path().to_owned() }
    }

    /// Creates a repository with one commit at `path`.
    pub fn at(test_env: &TestEnv, path: &Path) -> Repository {
        let repository = Repository { path: path.to_owned(), home: test_env.path().to_owned() };
        std::fs::create_dir_all(path.join("folder")).unwrap();
        // No template: git's sample hooks would be most of the files of a crashed environment.
        repository.git(&["init", "--quiet", "--initial-branch=main", "--template="]);
        for (name, value) in [("user.name", "A Tester"), ("user.email", "tester@example.org")] {
            repository.git(&["config", name, value]);
        }
        std::fs::write(path.join("tracked"), "as committed\n").unwrap();
        std::fs::write(path.join("folder/other"), "another\n").unwrap();
        std::fs::write(path.join(".gitignore"), "ignored/\n*.env\n").unwrap();
        repository.git(&["add", "--all"]);
        repository.git(&["commit", "--quiet", "--message", "the beginning"]);
        repository
    }

    /// Returns the path of the repository.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a git command in this repository, without the configuration of this machine and its user.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.path).args(arguments).stdin(Stdio::null());
        crate::without_foreign_variables(&mut command);
        command.env("HOME", &self.home).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// Runs git, requires success, and returns its output.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("git is installed");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Returns the branches and their commits.
    pub fn branches(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"])
    }

    /// Returns the worktrees that git lists, the repository itself first.
    pub fn worktrees(&self) -> Vec<PathBuf> {
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        listed.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from).collect()
    }

    /// Returns the sessions that have a rescue.
    pub fn rescues(&self) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname:lstrip=3)", "refs/sexton/rescue"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Requires that each of these objects, by its git name (`refs/x:path`), exists with exactly these bytes. One git
    /// process reads them all.
    pub fn require_objects(&self, expected: &BTreeMap<String, Vec<u8>>) {
        let mut command = self.command(&["cat-file", "--batch=%(objecttype)"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let names: String = expected.keys().map(|name| format!("{name}\n")).collect();
        let writer = std::thread::spawn(move || stdin.write_all(names.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let mut rest = output.stdout.as_slice();
        for (name, bytes) in expected {
            let mut wanted = b"blob\n".to_vec();
            wanted.extend(bytes);
            wanted.push(b'\n');
            let found = rest.get(..wanted.len().min(rest.len())).unwrap_or_default();
            assert_eq!(
                String::from_utf8_lossy(found),
                String::from_utf8_lossy(&wanted),
                "{name} is not in the repository as it was on disk"
            );
            rest = &rest[wanted.len()..];
        }
    }
}

/// Returns every file and symbolic link under `directory` with its bytes, except `.git`.
pub fn files_under(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(directory).unwrap().to_owned();
            if name == Path::new(".git") {
                continue;
            }
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path).unwrap().into_os_string();
                found.insert(name, std::os::unix::ffi::OsStringExt::into_vec(target));
            } else {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}
