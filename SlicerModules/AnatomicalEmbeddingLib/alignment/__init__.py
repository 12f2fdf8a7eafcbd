"""Laying one volume of the scene on another."""
