"""Scripts to run by hand, which regenerate parts of the packages and of the documentation."""
