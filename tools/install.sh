#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs what a make target needs, with the system's package manager: tools/install.sh build|vm|test|bench ...
# Says what is missing before it installs, and does nothing when nothing is.
set -eu

# The oldest Rust that builds this workspace: rust-version in Cargo.toml.
RUST_MAJOR_MINOR=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' "$(dirname "$0")/../Cargo.toml")

packages_for() {
    case $1 in
    build) echo "gcc make clang llvm pkg-config libelf-dev zlib1g-dev linux-libc-dev" ;;
    # The machine, and what fetches and unpacks Debian's kernels and file tree.
    vm) echo "qemu-system-x86 e2fsprogs xz-utils debian-archive-keyring binutils kmod" ;;
    # Other tools that the tests hold ours against.
    test) echo "openssl attr acl softhsm2 libcap2-bin e2fsprogs util-linux git python3 libvirt-clients libvirt0 libxml2-utils libsodium-dev" ;;
    bench) echo "openssl attr ima-evm-utils binutils time" ;;
    *)
        echo "install: expected build, vm, test or bench, found '$1'" >&2
        exit 2
        ;;
    esac
}

# True if version $1 is at least version $2.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "install: '$*' needs root and there is no sudo; run it as root, then run make again" >&2
        exit 1
    fi
}

apt_update_once() {
    [ -n "${UPDATED:-}" ] || as_root apt-get -q update >/dev/null
    UPDATED=1
}

apt_install() {
    apt_update_once
    echo "install: apt-get install $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null
}

candidate() {
    apt-cache policy "$1" | sed -n 's/^ *Candidate: *\([0-9][0-9.]*\).*/\1/p'
}

install_rust() {
    if command -v cargo >/dev/null && command -v rustc >/dev/null; then
        found=$(rustc --version | cut -d ' ' -f 2)
        if at_least "$found" "$RUST_MAJOR_MINOR"; then
            echo "install: Rust $found from $(command -v rustc)"
            return
        fi
        echo "install: Rust $found from $(command -v rustc) is older than $RUST_MAJOR_MINOR"
    fi
    apt_update_once
    # Debian 12 keeps a current Rust for its browsers under another name.
    for suffix in "" -web; do
        version=$(candidate "rustc$suffix")
        if [ -n "$version" ] && at_least "$version" "$RUST_MAJOR_MINOR"; then
            apt_install "rustc$suffix" "cargo$suffix"
            echo "install: Rust $version, the distribution's package rustc$suffix"
            return
        fi
    done
    echo "install: this distribution has no Rust $RUST_MAJOR_MINOR or newer; install it with rustup (https://rustup.rs)" >&2
    exit 1
}

if ! command -v apt-get >/dev/null; then
    echo "install: expected Debian 12 or newer with apt-get; install the following by hand:" >&2
    for set in "$@"; do echo "  $(packages_for "$set")" >&2; done
    exit 1
fi

missing=
for set in "$@"; do
    for package in $(packages_for "$set"); do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
done
# shellcheck disable=SC2086  # a list of package names
[ -z "$missing" ] || apt_install $missing
case " $* " in *" build "*) install_rust ;; esac
