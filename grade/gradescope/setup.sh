#!/usr/bin/env bash
# Builds the image, once: Rust, NVRTC, the grader, and all that the builds of submissions share.
#
# It ends by grading the solution, so that an image in which the solution does not get full marks is never made.
set -euo pipefail

apt-get update
apt-get install -y build-essential curl python3-pip
adduser --disabled-password --gecos "" grader
chown -R grader /autograder/source
chmod -R o= /autograder/source

runuser --user grader -- env --ignore-environment HOME=/home/grader PATH=/usr/local/bin:/usr/bin:/bin \
    bash -euo pipefail <<'BUILD'
cd /autograder/source
curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
. "$HOME/.cargo/env"
cargo build --locked --package grade
cargo grade --yes --solution
BUILD
