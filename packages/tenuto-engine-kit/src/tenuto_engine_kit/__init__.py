"""Code that two or more engines in this repository share and that needs numpy or Pillow.

Transcripts, mel spectra, speaker embeddings, language names, Mandarin annotations, pictures. Modules import
their libraries separately, so that an interpreter needs only those of the modules that its engine uses.
"""

import tenuto_engine

# Importing it keeps the libraries that these modules import from reporting anything.
assert tenuto_engine
