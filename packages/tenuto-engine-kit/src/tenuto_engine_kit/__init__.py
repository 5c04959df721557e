"""What two or more engines of this repository need of each other's work, and numpy or Pillow with it.

Transcripts, mel spectra, speaker embeddings, names of languages, Mandarin annotations, pictures. Each module
imports its libraries itself, so that an interpreter needs those of the modules that its engine uses. Knows no
model, and nothing of the service.
"""
