"""Help for who runs the service: doctor, uninstall, examples, texts in Chinese, the local login."""
