"""Child processes without rights that read what callers send."""
