"""The pictogram model, from the registries' art to the files that ship: README.md says the steps in order."""
