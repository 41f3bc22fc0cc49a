"""Which instructions become one fusion, and why."""
