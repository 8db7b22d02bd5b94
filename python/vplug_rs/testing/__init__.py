"""Helpers for the tests of plugins, platforms and hosts: no test framework is needed.

`roots` makes the file system of a machine that is not there, `libraries` a driver library that answers as told,
`modules` packages that a platform comes with, `plugins` calls a plugin in a fresh process and checks it. Import the
module that is wanted; this package brings none of them.
"""
