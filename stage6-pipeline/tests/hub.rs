//! Downloads from a server on this machine that stands in for the hub.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use common::{scratch, tiny, tiny_folder, weights};
use stage6_pipeline::{Error, Hub, ModelFiles};

const NAME: &str = "owls/tiny-gpt2";

/// Fault of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// So many times, a download of the weights stops after half of what is left.
    CutOff(usize),
    /// The weights are shorter than announced.
    Short,
    /// The weights that come are those of another file from where the first part ended.
    RangeIgnored,
}

/// Serves the files of a folder as the model [`NAME`], and notes what it was asked for: a file, and
/// the first byte of the range.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<(String, u64)>>>,
    trouble: Arc<Mutex<Trouble>>,
}

impl Server {
    fn start(folder: PathBuf, trouble: Trouble) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked, trouble) = (Arc::default(), Arc::new(Mutex::new(trouble)));
        let server = Self {
            address,
            asked: Arc::clone(&asked),
            trouble: Arc::clone(&trouble),
        };
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is no failure of the server.
                let _ = answer(stream.unwrap(), &folder, &asked, &trouble);
            }
        });
        server
    }

    fn hub(&self, cache: &Path) -> Hub {
        Hub::new(&self.address, cache)
    }

    /// The first bytes of the ranges in which a file was asked for, but for the
    /// questions about its length.
    fn ranges(&self, file: &str) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(name, _)| name == file)
            .map(|(_, first)| *first)
            .collect()
    }

    fn recover(&self) {
        *self.trouble.lock().unwrap() = Trouble::None;
    }
}

fn answer(
    mut stream: TcpStream,
    folder: &Path,
    asked: &Mutex<Vec<(String, u64)>>,
    trouble: &Mutex<Trouble>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let mut range = String::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = value.to_owned();
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let file = path
        .strip_prefix(&format!("/{NAME}/resolve/main/"))
        .unwrap_or("no such model");
    let Ok(content) = fs::read(folder.join(file)) else {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    };

    let (first, last) = range.split_once('-').unwrap_or(("0", ""));
    let length = content.len();
    let first: usize = first.parse().unwrap();
    let question = last == "0";
    let mut body = if question {
        &content[..1]
    } else {
        &content[first..]
    };
    let mut announced = body.len();
    if !question {
        asked.lock().unwrap().push((file.to_owned(), first as u64));
        let mut trouble = trouble.lock().unwrap();
        match (*trouble, file) {
            (Trouble::CutOff(times), "model.safetensors") if times > 0 => {
                *trouble = Trouble::CutOff(times - 1);
                body = &body[..body.len() / 2];
            }
            (Trouble::Short, "model.safetensors") => {
                body = &body[..body.len() - 5];
                announced = body.len();
            }
            (Trouble::RangeIgnored, "model.safetensors") => {
                body = &content;
                announced = length;
            }
            _ => {}
        }
    }
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nETag: \"{file}\"\r\nX-Repo-Commit: 0123456789abcdef\r\n\
         Content-Range: bytes {first}-{}/{length}\r\nContent-Length: {announced}\r\nConnection: close\r\n\r\n",
        first + announced - 1
    )?;
    stream.write_all(body)
}

#[track_caller]
fn assert_is_the_model(files: &ModelFiles) {
    let expected = tiny();
    assert_eq!(
        (&files.config, &files.tokenizer),
        (&expected.config, &expected.tokenizer)
    );
    assert!(weights(files) == weights(&expected));
}

#[track_caller]
fn refused(result: Result<ModelFiles, Error>) -> (String, String) {
    match result {
        Err(Error::Hub { file, reason, .. }) => (file, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_model_and_the_cache_ever_after() {
    let (cache, server) = (
        scratch("hub-whole"),
        Server::start(tiny_folder(), Trouble::None),
    );
    assert_is_the_model(&server.hub(&cache).model(NAME).unwrap());
    let asked = server.asked.lock().unwrap().len();
    assert_eq!(asked, 3);
    assert!(
        cache
            .join("models--owls--tiny-gpt2/snapshots/0123456789abcdef/config.json")
            .exists()
    );

    // With the files in the cache, the hub may be gone.
    assert_is_the_model(&Hub::new("http://127.0.0.1:9", &cache).model(NAME).unwrap());
    assert_eq!(server.asked.lock().unwrap().len(), asked);
}

/// `HF_ENDPOINT` and `HF_HOME` name the hub and the cache.
#[test]
fn the_program_takes_a_name() {
    let (home, server) = (
        scratch("hub-program"),
        Server::start(tiny_folder(), Trouble::None),
    );
    let told = |endpoint: &str, model: &Path| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_stage6-pipeline"));
        program.env("HF_ENDPOINT", endpoint).env("HF_HOME", &home);
        program
            .env("CUDA_SIM_CHECK", "on")
            .arg("--model")
            .arg(model);
        program.args(["--temperature", "0", "--max-tokens", "3"]);
        let output = program.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        output.stdout
    };
    let (nobody, name) = ("http://127.0.0.1:9", Path::new(NAME));
    let expected = told(nobody, &tiny_folder());
    assert_eq!(told(&server.address, name), expected);
    assert_eq!(told(nobody, name), expected); // from the cache
    assert!(home.join("hub/models--owls--tiny-gpt2").exists());
}

#[test]
fn a_model_in_shards() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpt2-f16");
    let (cache, server) = (scratch("hub-shards"), Server::start(folder, Trouble::None));
    assert_eq!(server.hub(&cache).model(NAME).unwrap().weights.len(), 3);
    assert_eq!(server.ranges("model-00002-of-00003.safetensors"), [0]);
    assert_eq!(
        Hub::new("http://127.0.0.1:9", &cache)
            .model(NAME)
            .unwrap()
            .weights
            .len(),
        3
    );
}

#[test]
fn a_download_that_is_cut_off_goes_on() {
    let (cache, server) = (
        scratch("hub-cut"),
        Server::start(tiny_folder(), Trouble::CutOff(1)),
    );
    assert_is_the_model(&server.hub(&cache).model(NAME).unwrap());
    let half = fs::metadata(tiny_folder().join("model.safetensors"))
        .unwrap()
        .len()
        / 2;
    assert_eq!(server.ranges("model.safetensors"), [0, half]);
}

#[test]
fn a_download_that_was_cut_off_goes_on_the_next_time() {
    let (cache, server) = (
        scratch("hub-again"),
        Server::start(tiny_folder(), Trouble::CutOff(3)),
    );
    let (file, reason) = refused(server.hub(&cache).model(NAME));
    assert_eq!(file, "model.safetensors");
    assert!(reason.contains("start again to go on"), "{reason}");

    let before = server.ranges("model.safetensors").len();
    assert_is_the_model(&server.hub(&cache).model(NAME).unwrap());
    let ranges = server.ranges("model.safetensors");
    assert_eq!(ranges.len(), before + 1);
    let whole = fs::metadata(tiny_folder().join("model.safetensors"))
        .unwrap()
        .len();
    assert!(ranges[before] >= whole * 7 / 8, "{ranges:?}");
}

#[test]
fn a_file_of_a_wrong_length_is_not_kept() {
    let (cache, server) = (
        scratch("hub-short"),
        Server::start(tiny_folder(), Trouble::Short),
    );
    let (file, reason) = refused(server.hub(&cache).model(NAME));
    assert_eq!(file, "model.safetensors");
    assert!(
        reason.contains("185051 bytes came, expected 185056"),
        "{reason}"
    );
    server.recover();
    assert_is_the_model(&server.hub(&cache).model(NAME).unwrap());
}

#[test]
fn a_server_that_starts_from_the_beginning_again() {
    let (cache, server) = (
        scratch("hub-range"),
        Server::start(tiny_folder(), Trouble::CutOff(3)),
    );
    refused(server.hub(&cache).model(NAME));
    *server.trouble.lock().unwrap() = Trouble::RangeIgnored;
    let (_, reason) = refused(server.hub(&cache).model(NAME));
    assert!(reason.contains("expected 185056"), "{reason}");
    server.recover();
    assert_is_the_model(&server.hub(&cache).model(NAME).unwrap());
}

#[test]
fn a_model_that_is_not_there() {
    let (cache, server) = (
        scratch("hub-404"),
        Server::start(tiny_folder(), Trouble::None),
    );
    let (file, reason) = refused(server.hub(&cache).model("owls/no-such-model"));
    assert_eq!(file, "config.json");
    assert!(reason.contains("no such model"), "{reason}");
}

#[test]
fn no_network() {
    // A port that nothing listens on.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let hub = Hub::new(format!("http://127.0.0.1:{port}"), scratch("hub-offline"));
    let (file, reason) = refused(hub.model(NAME));
    assert_eq!(file, "config.json");
    for advice in ["pass a folder", "HF_HOME"] {
        assert!(reason.contains(advice), "{reason} lacks {advice}");
    }
}
