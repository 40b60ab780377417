"""Certificates, and who may say what on a broker."""
