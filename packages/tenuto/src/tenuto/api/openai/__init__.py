"""OpenAI's audio and image routes: a second way to submit jobs and to collect their results."""
