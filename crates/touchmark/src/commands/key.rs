// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark key`: makes keys.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey};

use crate::text::printable;
use crate::{Exit, keys};

/// Arguments of `touchmark key`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KeyCommand {
    /// Make a private key and a certificate for it
    Generate(Generate),
}

/// Arguments of `touchmark key generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes DIR/key.pem (PKCS#8, mode 0600) and DIR/cert.pem (X.509, signed by the key itself). Keep the key where only \
you can read it; the certificate goes to every machine that is to trust the signatures.")]
struct Generate {
    /// Where to write; made if it is not there, for you alone
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// rsa2048, rsa3072, rsa4096, ecdsa-p256 or ecdsa-p384
    #[arg(long, default_value = "rsa2048")]
    algorithm: KeyAlgorithm,
    /// The name in the certificate [default: Touchmark signing key of HOST]
    #[arg(long)]
    name: Option<String>,
    /// Encrypt the key with the passphrase in the first line of this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    secrets: keys::SecretArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        KeyCommand::Generate(generate) => self::generate(generate),
    }
}

fn generate(args: &Generate) -> anyhow::Result<Exit> {
    let (key_path, cert_path) = (args.out.join("key.pem"), args.out.join("cert.pem"));
    for path in [&key_path, &cert_path] {
        // Asked early, because an RSA key takes a while; what counts is that the files below are made anew.
        if path.symlink_metadata().is_ok() {
            anyhow::bail!("{} is there already; nothing was changed", path.display());
        }
    }
    args.secrets.protect();
    let passphrase = args.passphrase_file.as_deref().map(keys::passphrase_from_file).transpose()?;
    let key = PrivateKey::generate(args.algorithm)?;
    let name = args.name.clone().unwrap_or_else(default_name);
    let certificate = Certificate::self_signed(&key, &name)?;
    let pem = key.to_pem(passphrase.as_deref())?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&args.out)
        .with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    // The key first: a certificate without its key would be of no use, a key without certificate can get one.
    write_new(&key_path, pem.as_bytes(), 0o600)?;
    if let Err(error) = write_new(&cert_path, certificate.to_pem().as_bytes(), 0o644) {
        // The pair is whole or not there, unless the machine stops right here.
        let _ = std::fs::remove_file(&key_path);
        return Err(error);
    }
    println!("key          {} ({})", printable(&key_path), args.algorithm);
    println!("certificate  {} ({})", printable(&cert_path), certificate.subject());
    println!("fingerprint  {}", certificate.fingerprint());
    if passphrase.is_none() {
        eprintln!("touchmark: the key is not encrypted (--passphrase-file FILE encrypts it)");
    }
    Ok(Exit::Success)
}

/// Writes a file that must not be there, and waits until it is on the disk.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = std::fs::remove_file(path);
        }
        written
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Certificates hold 64 characters.
fn default_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("Touchmark signing key of {host}").chars().take(64).collect()
}
