"""Runs the classics as local jobs and puts what comes out into their guide pages."""
