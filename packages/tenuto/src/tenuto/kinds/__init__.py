"""The kinds of job, one folder each: parameters, binding, run, check of the result, price.

`catalog.kinds` finds them here; no other package imports this one.
"""

from tenuto.kinds import image, recognition, speech

KINDS = (speech.KIND, recognition.KIND, image.KIND)
"""In the order in which they are listed."""
