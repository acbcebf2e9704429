// Package node makes a Kubernetes node of this machine: a process with namespaces of its own, in which
// the node's paths (/opt/cni, /etc/cni, /var/lib, /run and others) are directories of the test.
//
// The rest of the machine stays as it is, and nothing of a node outlives its test, however that ends:
// everything in the node is below its first process, which ends when the test's end of a pipe closes.
package node
