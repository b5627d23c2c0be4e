"""Helpers for tests of openmrc and of programs that use it; nothing here runs in production."""
