"""Stages whose op runs in an executor of the user's."""
