"""The studio's edge: people who sign in, what their pages need beyond the API, and the pages themselves."""
