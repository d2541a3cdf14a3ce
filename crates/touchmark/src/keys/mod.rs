// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys and certificates, as the user names them.

mod file;
mod passphrase;
mod pkcs11;
mod secrets;
mod uri;

use std::path::{Path, PathBuf};

use anyhow::Context;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::key::Signer;

pub(crate) use passphrase::from_file as passphrase_from_file;
pub(crate) use secrets::SecretArgs;

/// Which key signs.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// The private key: a PEM file, or a PKCS#11 URI such as 'pkcs11:token=Build;object=signing'
    #[arg(long, value_name = "FILE|URI")]
    key: String,
    /// Its certificate (PEM)
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// Read the key's passphrase, or the token's PIN, from the first line of this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    secrets: SecretArgs,
}

impl KeyArgs {
    /// For a command that can do without.
    pub(crate) fn new(key: String, cert: PathBuf, passphrase_file: Option<PathBuf>, secrets: SecretArgs) -> Self {
        Self { key, cert, passphrase_file, secrets }
    }

    /// The certificate; whether the key is its own shows when that is opened.
    pub(crate) fn certificate(&self) -> anyhow::Result<Certificate> {
        read_certificate(&self.cert)
    }

    /// Opens the key and makes sure that the certificate is for it.
    pub(crate) fn open(&self) -> anyhow::Result<(Box<dyn Signer>, Certificate)> {
        self.secrets.protect();
        let certificate = read_certificate(&self.cert)?;
        let signer: Box<dyn Signer> = if uri::is_uri(&self.key) {
            Box::new(pkcs11::Token::open(&self.key, &certificate, self.passphrase_file.as_deref())?)
        } else {
            Box::new(file::read(Path::new(&self.key), self.passphrase_file.as_deref())?)
        };
        if !certificate.matches(signer.as_ref()) {
            anyhow::bail!(
                "expected a certificate for the key {}, found one for another key: {} ({})",
                if uri::is_uri(&self.key) { uri::without_query(&self.key) } else { &self.key },
                self.cert.display(),
                certificate.subject()
            );
        }
        Ok((signer, certificate))
    }
}

/// The certificates of several PEM files, each of which may hold several.
pub(crate) fn read_certificates(paths: &[PathBuf]) -> anyhow::Result<Vec<Certificate>> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(Certificate::from_pem_many(&read(path)?).with_context(|| path.display().to_string())?);
    }
    Ok(all)
}

/// The first certificate of a PEM file.
pub(crate) fn read_certificate(path: &Path) -> anyhow::Result<Certificate> {
    Certificate::from_pem(&read(path)?).with_context(|| path.display().to_string())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
