#!/usr/bin/env bash
# Prints the first Python of at least 3.11 that runs; prints nothing if there is none.
# Each is asked, not only found: a version manager's stand-in may answer "not installed".
set -u
for name in python3 python python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9]*/bin/python; do
    if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$name"
        exit 0
    fi
done
