// Package dist makes what the tests put onto nodes: our artifacts, the way a user does, by running
// cnibake, and the small images beside them.
package dist
