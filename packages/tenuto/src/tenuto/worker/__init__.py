"""Workers: claim jobs, run attempts on engine hosts, settle, and keep house."""
