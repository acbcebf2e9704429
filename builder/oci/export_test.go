package oci

// UnpackArchive takes limits that a test can reach.
var UnpackArchive = unpackArchive
