"""What the core's tests need of features where there is none: kinds of jobs, and the fake engines."""
