"""The messages and stubs of the service, generated from its proto. Do not edit: run `generate`."""
