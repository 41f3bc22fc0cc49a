"""TT-BUDA netlists: read, check, show, write, and run by numpy; see docs/netlists.md."""
