"""What the vendor's flow reads, written from any program: modules in tx8be, and chip folders with their data."""
