"""What is run by hand when a part of the package is to be made anew."""
