// Package multus names a Multus to build: its programs are main packages of the one requirement. It is
// a module of its own so that Multus is compiled with the dependencies that upstream releases it with.
package multus
